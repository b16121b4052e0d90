//! docs/command_line.md is what `--help` says.

use std::path::PathBuf;

use crate::common::{Run, dlmrs};

const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p dlmrs-cli --test cli reference";

fn help(command: &[&str]) -> String {
    // Without a terminal this is the width, whoever runs the test.
    let run: Run = dlmrs(&[command, &["--help"]].concat()).env("COLUMNS", "100").output().unwrap().into();
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    run.out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The names under "Commands:".
fn commands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // The descriptions of long lists are wrapped, and stand further right.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").collect()
}

fn page() -> String {
    let top = help(&[]);
    let names = commands(&top);
    assert!(names.len() > 3, "{top}");
    let mut page = format!(
        "# The command line\n\n\
         What `dlmrs --help` and the `--help` of each command say; `-h` says less. Results go to standard output, everything else to\n\
         standard error. The exit code is 0, or 1 for a failure, 2 for wrong usage, 130 after Ctrl-C. `NO_COLOR` switches colours off.\n\n\
         This page is generated, and a test compares it: `{UPDATE}`\nwrites it anew.\n\n\
         ```text\n{top}```\n"
    );
    for name in names {
        page.push_str(&format!("\n## dlmrs {name}\n\n```text\n{}```\n", help(&[name])));
    }
    page
}

#[test]
fn the_reference_is_what_help_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/command_line.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(page.lines()).find(|(found, wanted)| found != wanted);
    assert!(found == page, "docs/command_line.md is not what --help says (the first line that differs: {differs:?}); run {UPDATE}");
}
