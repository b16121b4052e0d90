//! Every command shows how it is used, and what it shows can be typed.

use clap::{CommandFactory, Parser};

use super::Cli;

/// The command lines among the examples, without what the shell does with their streams.
fn lines(help: &str) -> Vec<Vec<String>> {
    let (_, examples) = help.split_once("Examples:\n").unwrap();
    let joined = examples.split("\\\n").map(str::trim_start).collect::<Vec<_>>().join("");
    let commands = joined.lines().map(str::trim).filter(|line| line.starts_with("dlmrs "));
    commands
        .map(|line| {
            // An explanation stands behind some spaces.
            let command = line.split("   ").next().unwrap();
            let words = shell_words::split(command).unwrap();
            words.into_iter().take_while(|word| !["<", ">", ">>", "|"].contains(&word.as_str())).collect()
        })
        .collect()
}

#[test]
fn every_command_has_examples_that_can_be_typed() {
    let cli = Cli::command();
    let all = [&cli].into_iter().chain(cli.get_subcommands());
    for command in all {
        let name = command.get_name();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_else(|| panic!("{name} has no examples"));
        let lines = lines(&help);
        assert!(!lines.is_empty(), "{name} has no examples");
        for line in lines {
            let parsed = Cli::try_parse_from(&line);
            assert!(parsed.is_ok(), "{line:?}: {}", parsed.unwrap_err());
            assert!(name == "dlmrs" || line[1] == name, "{line:?} stands under {name}");
        }
    }
}

#[test]
fn examples_are_read_as_a_shell_reads_them() {
    let found = lines("Examples:\n  dlmrs generate m \\\n      \"a b\"\n  dlmrs demo > f    what it is\n      where > is\n");
    assert_eq!(found, [vec!["dlmrs", "generate", "m", "a b"], vec!["dlmrs", "demo"]]);
}
