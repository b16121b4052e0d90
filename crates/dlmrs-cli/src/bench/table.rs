//! The report for people.

use dlmrs::decode::PassKind;
use dlmrs::engine::Stats;
use unicode_width::UnicodeWidthStr;

use super::report::{Measured, Report};
use super::statistics::Spread;
use super::turn::Turn;

/// Where nothing can be said.
const NOTHING: &str = "-";

/// What was measured on what, the times, the counters, and which outputs are the same.
pub(super) fn text(report: &Report<'_>) -> String {
    let parts = [head(report), times(report), counters(report), outputs(report)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn head(report: &Report<'_>) -> String {
    let (bench, machine) = (report.bench, &report.machine);
    let lengths = bench.prompts.iter().map(|prompt| prompt.ids.len());
    let (shortest, longest) = (lengths.clone().min().unwrap_or_default(), lengths.max().unwrap_or_default());
    let lengths = if shortest == longest { longest.to_string() } else { format!("{shortest} to {longest}") };
    let done = match (report.rounds.len(), bench.rounds) {
        (done, planned) if done == planned => format!("{done} rounds"),
        (done, planned) => format!("stopped after {done} of {planned} rounds"),
    };
    format!(
        "{}: {} prompts of {lengths} tokens, {} together, {done} after a warm-up\n\
         {}, {} threads, {}, {} on {}, {}\n\
         dlmrs {} ({} build), {}",
        bench.llm.name(),
        bench.prompts.len(),
        bench.batch,
        machine.cpu.as_deref().unwrap_or("unknown CPU"),
        machine.threads,
        machine.isa,
        machine.dtype,
        machine.device,
        machine.backend,
        env!("CARGO_PKG_VERSION"),
        machine.build,
        machine.system,
    )
}

fn times(report: &Report<'_>) -> String {
    let head = ["medians", "tokens/s", "of baseline", "slots/s", "ms/pass", "p50 ms", "p95 ms", "forward", "scan", "rest", "peak MB"];
    let row = |measured: &Measured<'_>| {
        vec![
            measured.setting.name.clone(),
            figure(measured.median(Turn::tokens_per_second)),
            ratio(report.ratio(measured, Turn::tokens_per_second)),
            figure(measured.median(Turn::revealed_per_second)),
            figure(measured.median(Turn::ms_per_pass)),
            figure(measured.latency_ms(50)),
            figure(measured.latency_ms(95)),
            percent(measured.share(Turn::forward)),
            percent(measured.share(Turn::scan)),
            percent(measured.share(Turn::rest)),
            measured.peak().map_or(NOTHING.into(), |bytes| format!("{:.0}", bytes as f64 / 1e6)),
        ]
    };
    table(&head, report.measured.iter().map(row).collect())
}

/// Of the kinds of passes, those that occurred.
fn counters(report: &Report<'_>) -> String {
    let counted = |measured: &Measured<'_>| measured.first().stats.clone();
    let all: Vec<Stats> = report.measured.iter().map(counted).collect();
    let occurs = |kind: &PassKind| all.iter().any(|stats| stats.both_passes().get(*kind) + stats.both_rows().get(*kind) > 0);
    let kinds: Vec<PassKind> = PassKind::ALL.into_iter().filter(occurs).collect();
    let names = || kinds.iter().map(|kind| kind.name());
    let head: Vec<&str> = ["counted", "tokens", "passes"]
        .into_iter()
        .chain(names())
        .chain(["tokens/pass", "rows"])
        .chain(names())
        .chain(["scanned"])
        .collect();
    let row = |(measured, stats): (&Measured<'_>, &Stats)| {
        let mut cells = vec![measured.setting.name.clone(), stats.tokens.to_string(), stats.total_passes().to_string()];
        cells.extend(kinds.iter().map(|kind| stats.both_passes().get(*kind).to_string()));
        cells.extend([format!("{:.2}", stats.tokens_per_pass()), stats.both_rows().total().to_string()]);
        cells.extend(kinds.iter().map(|kind| stats.both_rows().get(*kind).to_string()));
        cells.push(stats.scanned_rows.to_string());
        cells
    };
    table(&head, report.measured.iter().zip(&all).map(row).collect())
}

/// Empty for one setting.
fn outputs(report: &Report<'_>) -> String {
    let base = &report.measured[0].setting.name;
    let prompts = report.bench.prompts.len();
    let line = |index: usize| {
        let name = &report.measured[index].setting.name;
        let same = report.same_as(index).map(|other| format!("token-identical to {other}"));
        let differing = match report.differing(0, index) {
            0 => None,
            count => Some(format!("{count} of {prompts} prompts differ from {base}")),
        };
        format!("{name}: {}", differing.into_iter().chain(same).collect::<Vec<_>>().join(", "))
    };
    (1..report.measured.len()).map(line).collect::<Vec<_>>().join("\n")
}

/// Columns under their heads: the first to the left, the others to the right.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|name| name.to_string()).collect();
    let lines: Vec<Vec<String>> = [head].into_iter().chain(rows).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.width()).max().unwrap_or_default();
    let cell = |(column, cell): (usize, &String)| {
        let space = " ".repeat(width(column) - cell.width());
        if column == 0 { format!("{cell}{space}") } else { format!("  {space}{cell}") }
    };
    lines.iter().map(|line| line.iter().enumerate().map(cell).collect::<String>()).collect::<Vec<_>>().join("\n")
}

/// Three digits that count.
fn figure(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn ratio(spread: Option<Spread>) -> String {
    match spread {
        Some(Spread { median, lowest, highest }) if lowest == highest => format!("{median:.2}"),
        Some(Spread { median, lowest, highest }) => format!("{median:.2} ({lowest:.2}..{highest:.2})"),
        None => NOTHING.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec!["é".to_string(), "1".to_string()], vec!["漢字".to_string(), "1000".to_string()]];
        assert_eq!(table(&["a", "bc"], rows), "a       bc\né        1\n漢字  1000");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.123, 9.99, 9.996, 99.94, 99.96, 1234.5].map(figure), ["0.00", "0.12", "9.99", "10.0", "99.9", "100", "1234"]);
        let spread = |median, lowest, highest| ratio(Some(Spread { median, lowest, highest }));
        assert_eq!(spread(1.25, 1.2, 1.304), "1.25 (1.20..1.30)");
        assert_eq!(spread(1.0, 1.0, 1.0), "1.00");
        assert_eq!(ratio(None), "-");
    }
}
