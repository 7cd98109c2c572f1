use clap::Parser;
use strandline::encryption::{Options, read_identity};

use super::*;

#[derive(Debug, Parser)]
enum Cli {
    Keygen(Keygen),
    #[command(subcommand)]
    Trust(Trust),
}

/// Runs a command line; paths in it are relative to the folder.
fn run(folder: &std::path::Path, line: &str) -> Result<()> {
    let line = line.replace("DIR", &folder.display().to_string());
    match Cli::try_parse_from(format!("strandline {line}").split_whitespace())? {
        Cli::Keygen(keygen) => keygen.run(),
        Cli::Trust(trust) => trust.run(),
    }
}

#[test]
fn a_key_is_made_once_and_trusted() {
    let folder = std::env::temp_dir().join(format!("strandline-keygen-{}", std::process::id()));
    run(&folder, "keygen --out DIR/below/key.pem").unwrap();
    let key = folder.join("below/key.pem");
    let fingerprint = read_identity(&key).unwrap().fingerprint();
    let again = run(&folder, "keygen --out DIR/below/key.pem").unwrap_err().to_string();
    assert!(again.contains("already exists; not overwritten"), "{again}");
    run(&folder, "keygen --out DIR/below/key.pem --show").unwrap();

    let list = folder.join("hosts");
    run(&folder, &format!("trust add --file DIR/hosts server.example {fingerprint} a comment")).unwrap();
    run(&folder, &format!("trust add --file DIR/hosts server.example {fingerprint}")).unwrap();
    run(&folder, "trust list --file DIR/hosts").unwrap();
    let expected = format!("server.example {fingerprint} a comment\n");
    assert_eq!(std::fs::read_to_string(&list).unwrap(), expected, "added once");
    let trust = vec![list.display().to_string(), fingerprint.to_string()];
    assert!(Options { key: Some(key), trust }.load().is_ok());

    run(&folder, "trust remove --file DIR/hosts server.example").unwrap();
    assert_eq!(std::fs::read_to_string(&list).unwrap(), "");
    assert!(run(&folder, "trust remove --file DIR/hosts server.example").is_err());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn malformed_hosts_are_refused() {
    let folder = std::env::temp_dir();
    for line in ["trust add --file DIR/none host SHA256:short", "trust add --file DIR/none '#host' nothing"] {
        assert!(run(&folder, line).is_err(), "{line}");
    }
}

#[test]
fn a_line_that_cannot_be_read_is_kept() {
    let folder = std::env::temp_dir().join(format!("strandline-trust-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let list = folder.join("hosts");
    let key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    std::fs::write(&list, format!("a {key}\nb SHA256:short\n")).unwrap();
    run(&folder, "trust list --file DIR/hosts").unwrap();
    run(&folder, &format!("trust add --file DIR/hosts c {key}")).unwrap();
    run(&folder, "trust remove --file DIR/hosts a").unwrap();
    assert_eq!(std::fs::read_to_string(&list).unwrap(), format!("b SHA256:short\nc {key}\n"));
    run(&folder, "trust remove --file DIR/hosts b").unwrap();
    assert_eq!(std::fs::read_to_string(&list).unwrap(), format!("c {key}\n"));
    std::fs::remove_dir_all(folder).unwrap();
}
