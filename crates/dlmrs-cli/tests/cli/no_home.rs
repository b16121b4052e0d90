//! No command needs a home directory.

use crate::common::{ANSWER, PROBLEM, Run, dlmrs};

#[test]
fn every_command_works_without_a_home() {
    let commands: [(&[&str], &str); 5] = [
        (&["generate", "tiny-sdar", PROBLEM], ANSWER),
        (&["inspect", "tiny-sdar"], "SDAR"),
        (&["demo", "--problems", "1", "--model", "tiny-sdar"], "1 of 1 right"),
        (&["completions", "bash"], "_dlmrs"),
        (&["chat", "tiny-sdar"], ""),
    ];
    for (args, wanted) in commands {
        for home in [None, Some("")] {
            let mut command = dlmrs(args);
            command.env_remove("HOME").env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME");
            if let Some(home) = home {
                command.env("HOME", home);
            }
            let run: Run = command.output().unwrap().into();
            assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{args:?}");
            assert!(run.out.contains(wanted), "{args:?}: {}", run.out);
        }
    }
}
