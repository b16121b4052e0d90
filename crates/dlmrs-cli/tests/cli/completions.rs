//! `dlmrs completions`.

use crate::common::{good, run};

#[test]
fn every_shell_has_a_script_with_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = good(&["completions", shell]);
        for word in ["chat", "generate", "completions", "temperature", "watch"] {
            assert!(script.contains(word), "{word} in {shell}");
        }
    }
    let wrong = run(&["completions", "tcsh"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("bash") && wrong.err.contains("elvish"), "{}", wrong.err);
}

/// The script as bash itself uses it.
#[cfg(unix)]
#[test]
fn bash_completes_a_command() {
    let script =
        good(&["completions", "bash"]) + "\nCOMP_WORDS=(dlmrs ch); COMP_CWORD=1\n_dlmrs dlmrs ch dlmrs\necho \"${COMPREPLY[@]}\"\n";
    let Ok(output) = std::process::Command::new("bash").args(["-c", &script]).output() else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "chat\n", "{}", String::from_utf8_lossy(&output.stderr));
}
