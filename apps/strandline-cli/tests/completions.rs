//! Tests of `strandline completions` in the shells that use it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// Writes the completion file for a shell.
fn file(shell: &str, name: &str) -> PathBuf {
    let output = Command::new(PROGRAM).args(["completions", shell]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("completions-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, output.stdout).unwrap();
    path
}

/// Runs a shell that must succeed, and returns its output.
fn told(shell: &str, arguments: &[&str]) -> String {
    let run = Command::new(shell).args(arguments).output();
    let output = run.unwrap_or_else(|error| panic!("{shell}: {error}: apt-get install {shell}"));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{shell}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns what bash offers for the last of these words.
fn offered(file: &str, words: &[&str]) -> Vec<String> {
    // As readline does: passes the words and the index of the current one, and calls the function with the
    // command, the word, and the previous word.
    let script = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_LINE=\"$*\"; \
                  COMP_POINT=${#COMP_LINE}; words=(\"$@\"); \
                  _strandline strandline \"${words[-1]}\" \"${words[-2]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut arguments = vec!["--norc", "--noprofile", "-c", script, "bash", file];
    arguments.extend(words);
    told("bash", &arguments).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let path = file("bash", "strandline");
    let file = path.to_str().unwrap();
    let registered =
        told("bash", &["--norc", "--noprofile", "-c", "source \"$1\"; complete -p strandline", "bash", file]);
    assert!(registered.contains("-F _strandline") && registered.ends_with(" strandline\n"), "{registered}");
    assert_eq!(offered(file, &["strandline", "net"]), ["netem"]);
    assert_eq!(offered(file, &["strandline", "sip", "ad"]), ["admin"]);
    assert_eq!(offered(file, &["strandline", "sip", "admin", "ki"]), ["kick"]);
    assert_eq!(offered(file, &["strandline", "sip", "admin", "drain", "--o"]), ["--off"]);
    assert_eq!(offered(file, &["strandline", "sip", "--adm"]), ["--admin", "--admin-token"]);
    let styles = offered(file, &["strandline", "sip", "--sctp-style", "one"]);
    assert_eq!(styles, ["one-to-many", "one-to-one"]);
    let kinds = offered(file, &["strandline", "load", "sip", "--transport", "t"]);
    assert_eq!(kinds, ["tcp", "tls"]);
    // Subcommands that only other parts of the program start are not offered.
    let loads = offered(file, &["strandline", "load", ""]);
    assert!(loads.contains(&"phones".to_owned()), "{loads:?}");
    let hidden = ["sip-part", "phones-part", "part", "worker"];
    assert!(!loads.iter().any(|word| hidden.contains(&word.as_str())), "{loads:?}");
    assert!(offered(file, &["strandline", "sip", "--work"]).is_empty());
}

#[test]
fn zsh_and_fish_take_theirs() {
    let path = file("zsh", "_strandline");
    let folder = path.parent().unwrap().to_str().unwrap();
    // As in an interactive shell, without the user's settings.
    let script = "fpath=(\"$1\" $fpath); autoload -Uz compinit && compinit -u -D; \
                  print -- $_comps[strandline]; autoload +X _strandline && print loaded";
    assert_eq!(told("zsh", &["-f", "-c", script, "zsh", folder]), "_strandline\nloaded\n");
    let path = file("fish", "strandline.fish");
    let script = "source $argv[1]; complete -C 'strandline sip ad'; complete -C 'strandline sip admin ki'";
    let offered = told("fish", &["--no-config", "-c", script, path.to_str().unwrap()]);
    let words: Vec<&str> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["admin", "kick"], "{offered}");
}

#[test]
fn other_shells_get_theirs() {
    for (shell, begins) in [("elvish", "use builtin;"), ("powershell", "using namespace")] {
        let output = Command::new(PROGRAM).args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.trim_start().starts_with(begins), "{shell}: {text}");
    }
    let output = Command::new(PROGRAM).args(["completions", "tcsh"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("[possible values: bash, elvish, fish,"), "{told}");
}

#[test]
fn it_ends_quietly_when_nobody_reads() {
    let mut child = Command::new(PROGRAM)
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""));
}
