//! Fuzz target: arbitrary bytes as a configuration. The files that it names aren't read.
#![allow(clippy::panic, reason = "a fuzz target stops at what breaks a promise")]

use std::path::Path;
use std::sync::LazyLock;

use clap::Parser;

use strandline_ops::Files;

use super::{Config, ConfigError};
use crate::server::Args;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

static ARGS: LazyLock<Args> = LazyLock::new(|| Line::parse_from(["sip", "--config", "strandline.toml"]).args);

/// An error is about this file, and about one of its lines if the file has the key. It is not much longer than what
/// it quotes.
fn check_error(error: &ConfigError, name: &str, bytes: &[u8]) {
    match error {
        ConfigError::Malformed { path, cause } => {
            assert_eq!(path, Path::new(name));
            assert!(!cause.to_string().is_empty());
        }
        ConfigError::Value { place: Some((path, line)), .. } => {
            let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
            assert!(path == Path::new(name) && (1..=lines).contains(line), "line {line} of {lines}");
        }
        _ => {}
    }
    let text = error.to_string();
    // Quoted text may need escapes.
    assert!(!text.is_empty() && text.len() <= 12 * bytes.len() + 4096, "{text}");
}

/// A valid configuration has a listener. An error names what is wrong, and is not much longer than what it
/// quotes.
pub fn run(bytes: &[u8]) {
    let name = "strandline.toml";
    let mut packed = Vec::new();
    for part in [name.as_bytes(), bytes, b"users.txt", b"alice:password:secret\n"] {
        packed.extend_from_slice(&(part.len() as u32).to_le_bytes());
        packed.extend_from_slice(part);
    }
    let Ok(mut files) = Files::from_bytes(&packed) else { panic!("what was packed can be unpacked") };
    assert!(files.to_bytes().is_ok_and(|again| again == packed));
    match Config::of(&ARGS, &mut files) {
        Ok(config) => {
            assert!(!config.listen.is_empty() && config.processes >= 1);
            let _ = (config.ours(), config.tls_sides());
        }
        Err(ConfigError::Several(all)) => {
            assert!(all.len() > 1);
            all.iter().for_each(|error| check_error(error, name, bytes));
        }
        Err(error) => check_error(&error, name, bytes),
    }
}
