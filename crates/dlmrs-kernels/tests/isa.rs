//! What the environment may say. Alone in its file: the level is chosen once in a process, so each case is a process.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use dlmrs_kernels::Isa;

/// Run by the test below in a process of its own: the chosen level must be the one that is asked for here.
#[test]
fn chosen() {
    if let Ok(want) = std::env::var("DLMRS_TEST_WANT") {
        assert_eq!(Isa::detect().name(), want);
    }
}

#[test]
fn the_environment_chooses_among_what_the_cpu_has() {
    let all = Isa::available();
    let best = all.last().unwrap();
    let mut cases: Vec<(&str, &str)> = all.iter().map(|isa| (isa.name(), isa.name())).collect();
    cases.extend([("", best.name()), ("sse9", best.name())]);
    for (value, want) in cases {
        let mut process = Command::new(std::env::current_exe().unwrap());
        let status = process.args(["--exact", "chosen"]).env("DLMRS_ISA", value).env("DLMRS_TEST_WANT", want).status().unwrap();
        assert!(status.success(), "DLMRS_ISA={value} should give {want}");
    }
}
