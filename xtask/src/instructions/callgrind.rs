//! Runs a program under callgrind and parses its output.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Instructions by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Instructions {
    /// The engine's own code and the code inlined into it.
    pub(super) engine: u64,
    /// CRC32c.
    pub(super) checksum: u64,
    /// The cookie's hash and the random numbers.
    pub(super) hashing: u64,
    /// The C library: copies, the allocator.
    pub(super) library: u64,
}

const CHECKSUM: [&str; 2] = ["crc_fast", "crc32"];
const HASHING: [&str; 4] = ["sha2::", "sha256", "chacha", "ppv_lite86"];

/// Runs the program, counting only within the named functions and after its `begin`. Returns the numbers that
/// it printed, by name, and the instructions.
pub(super) fn run(
    root: &Path,
    program: &Path,
    arguments: &[&str],
    functions: &str,
) -> Result<(BTreeMap<String, u64>, Instructions)> {
    let folder = root.join("target/instructions");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("callgrind.out");
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--dump-line=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(format!("--toggle-collect={functions}"))
        .arg("--zero-before=strandline_instructions::begin*")
        .arg(program)
        .args(arguments);
    let output = command.output().context("starting valgrind: is it installed?")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.lines().last().unwrap_or_default());
    let counts = String::from_utf8(output.stdout)?;
    let counts = counts.lines().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    let text = std::fs::read_to_string(&file)?;
    let name = program.file_name().and_then(|name| name.to_str()).context("a program without name")?;
    let instructions = parse(&text, name);
    ensure!(instructions.engine > 0, "callgrind counted nothing in {functions}");
    Ok((counts.collect(), instructions))
}

/// Adds up the functions' own instructions. The lines after a `calls=` count the called functions, which are
/// listed separately.
fn parse(text: &str, program: &str) -> Instructions {
    let mut instructions = Instructions::default();
    let (mut object, mut function, mut is_called) = ("", "", false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            is_called = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_called) {
                *place(&mut instructions, object, function, program) += cost;
            }
        }
    }
    instructions
}

fn place<'a>(to: &'a mut Instructions, object: &str, function: &str, program: &str) -> &'a mut u64 {
    let is_of = |names: &[&str]| names.iter().any(|name| function.contains(name));
    if object.rsplit('/').next() != Some(program) {
        &mut to.library
    } else if is_of(&CHECKSUM) {
        &mut to.checksum
    } else if is_of(&HASHING) {
        &mut to.hashing
    } else {
        &mut to.engine
    }
}

#[cfg(test)]
mod tests;
