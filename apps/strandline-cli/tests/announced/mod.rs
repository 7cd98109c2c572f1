//! Servers that announce their addresses.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Starts a server whose first line of output is JSON, and returns both.
pub fn announced(server: &mut Command) -> (Child, Value) {
    let mut child = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).unwrap())
}
