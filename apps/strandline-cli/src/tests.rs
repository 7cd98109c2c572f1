//! Tests of the commands' help texts.
#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory, Parser};

use super::Cli;

/// Returns all visible commands, each with its words.
fn commands() -> Vec<(String, Command)> {
    fn below(path: &str, command: &Command, found: &mut Vec<(String, Command)>) {
        found.push((path.to_owned(), command.clone()));
        let seen = command.get_subcommands().filter(|below| !below.is_hide_set());
        for one in seen.filter(|one| one.get_name() != "help") {
            below(&format!("{path} {}", one.get_name()), one, found);
        }
    }
    let mut found = Vec::new();
    below("strandline", &Cli::command(), &mut found);
    found
}

/// Returns the command lines in a help text: continued lines are joined, and descriptions are removed.
fn examples(help: &str) -> Vec<String> {
    let (_, after) = help.split_once("Examples:\n").unwrap_or_default();
    let mut lines = Vec::<String>::new();
    let mut goes_on = false;
    for line in after.lines().take_while(|line| line.starts_with("  ")) {
        let text = line.trim_start();
        match lines.last_mut() {
            Some(last) if goes_on => {
                last.push(' ');
                last.push_str(text);
            }
            _ if line.starts_with("   ") => continue,
            _ => lines.push(text.to_owned()),
        }
        let last = lines.last_mut().unwrap();
        goes_on = last.ends_with('\\');
        *last = last.trim_end_matches('\\').trim_end().to_owned();
    }
    lines
}

/// Splits a line into words as a shell does, up to the first part that is not for the program: `|`, `>`, `;`,
/// `&`, or a gap of two spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut rest = line.chars().peekable();
    while let Some(letter) = rest.next() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (' ', None) if rest.peek() == Some(&' ') => break,
            (' ', None) => words.push(String::new()),
            ('|' | '>' | ';' | '&', None) => {
                words.retain(|word| !word.is_empty());
                break;
            }
            (letter, _) => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// Returns the words of the command that was chosen.
fn chosen(matches: &ArgMatches) -> String {
    let mut path = "strandline".to_owned();
    let mut next = matches.subcommand();
    while let Some((name, below)) = next {
        path.push(' ');
        path.push_str(name);
        next = below.subcommand();
    }
    path
}

#[test]
fn every_command_has_examples_that_it_takes() {
    let (mut missing, mut wrong) = (Vec::new(), Vec::new());
    for (path, command) in commands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut has_own = false;
        for line in examples(&help).iter().filter(|line| line.starts_with("strandline ")) {
            match Cli::command().try_get_matches_from(words(line)) {
                Ok(matches) => {
                    has_own |= chosen(&matches).starts_with(&path);
                    if let Err(error) = Cli::try_parse_from(words(line)) {
                        wrong.push(format!("{path}: {line}: {error}"));
                    }
                }
                Err(error) if error.kind() == ErrorKind::DisplayHelp => has_own |= line.starts_with(&path),
                Err(error) => wrong.push(format!("{path}: {line}: {error}")),
            }
        }
        if !has_own {
            missing.push(path);
        }
    }
    assert!(wrong.is_empty(), "these don't do what they say:\n{}", wrong.join("\n"));
    assert!(missing.is_empty(), "no examples of their own: {missing:?}");
    assert!(commands().len() > 30, "all were looked at");
}

#[test]
fn an_example_is_what_would_be_typed() {
    let help = "Examples:\n  strandline a --b 'c  d' \\\n      --e    what it does\n        more of that\n  x | y\n\nNot: this";
    let lines = examples(help);
    assert_eq!(lines, ["strandline a --b 'c  d' --e    what it does", "x | y"]);
    assert_eq!(words(&lines[0]), ["strandline", "a", "--b", "c  d", "--e"]);
    assert_eq!(words(&lines[1]), ["x"]);
    assert_eq!(words("a b; c"), ["a", "b"]);
}

/// Every argument and option has a description.
#[test]
fn every_argument_says_what_it_is() {
    let mut silent = Vec::new();
    for (path, command) in commands() {
        if command.get_about().is_none() {
            silent.push(path.clone());
        }
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            if argument.get_help().is_none_or(|help| help.to_string().trim().is_empty()) {
                silent.push(format!("{path}: {}", argument.get_id()));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn the_page_of_commands_has_them_all() {
    let page = include_str!("../../../docs/commands.md");
    let (_, table) = page.split_once("## Commands\n").unwrap();
    let rows: Vec<&str> = table.lines().take_while(|line| !line.starts_with("## ")).collect();
    for (path, command) in commands().into_iter().filter(|(_, command)| !command.has_subcommands()) {
        let (above, name) = path.rsplit_once(' ').unwrap();
        let has = |row: &&&str| {
            row.contains(&format!("`{path}`"))
                || (row.contains(&format!("`{above} ")) && row.contains(&format!("`{name}`")))
        };
        assert!(rows.iter().any(|row| has(&row)), "docs/commands.md lacks {path}: {:?}", command.get_about());
    }
}
