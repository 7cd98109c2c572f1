//! `strandline lab site`: the files that the experiments with HTTP fetch, and a server for them.

use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow};

use crate::netem::command::missing;
use crate::netem::program::search_path;

/// Arguments of `strandline lab site`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline lab site lab-site
  strandline lab site lab-site -- strandline http serve lab-site

Files of a size: 100, 1k, 10k, 100k, 1m, 10m, 64m (1k is 1,024 bytes). A page: page/index.html with
40 images, styles and scripts beside it, 560 KB. Pages with five images of one size: images/10k.html,
50k, 100k, 500k, 1m. Files that are there already stay as they are.
The program takes the place of this command.")]
pub struct SiteArgs {
    /// Directory to create the files in
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Program to run afterwards, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// Files of one size: names and bytes.
const FILES: [(&str, usize); 7] = [
    ("100", 100),
    ("1k", 1 << 10),
    ("10k", 10 << 10),
    ("100k", 100 << 10),
    ("1m", 1 << 20),
    ("10m", 10 << 20),
    ("64m", 64 << 20),
];
/// Sizes of the images of pages with five: names and bytes.
const IMAGES: [(&str, usize); 5] =
    [("10k", 10 << 10), ("50k", 50 << 10), ("100k", 100 << 10), ("500k", 500 << 10), ("1m", 1 << 20)];
/// Number of images of these pages.
const IMAGES_OF_A_PAGE: usize = 5;
/// Bytes of the page's HTML.
const HTML_BYTES: usize = 24 << 10;
/// Number of the page's objects.
const OBJECTS: usize = 40;
/// Sizes of the page's objects, in turn, KB.
const OBJECT_KBYTES: [usize; 10] = [2, 38, 4, 24, 6, 20, 8, 16, 10, 12];

/// Creates the files and runs the program.
///
/// # Errors
/// If a file can't be written, or the program can't be started.
pub fn run(args: &SiteArgs) -> Result<ExitCode> {
    create(&args.directory)?;
    let Some((program, arguments)) = args.program.split_first() else { return Ok(ExitCode::SUCCESS) };
    let path = if program == "strandline" { std::env::current_exe()? } else { PathBuf::from(program) };
    // Returns only if it failed.
    let error = Command::new(path).args(arguments).env("PATH", search_path()).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => anyhow!(missing(program)),
        _ => anyhow!(error).context(format!("starting {program}")),
    })
}

fn create(directory: &Path) -> Result<()> {
    let page = directory.join("page");
    fs::create_dir_all(&page).with_context(|| format!("creating {}", page.display()))?;
    for (name, bytes) in FILES {
        write(&directory.join(name), bytes, || content(bytes))?;
    }
    for (number, kbytes) in (0..OBJECTS).zip(OBJECT_KBYTES.iter().cycle()) {
        let bytes = kbytes << 10;
        write(&page.join(object(number)), bytes, || content(bytes))?;
    }
    write(&page.join("index.html"), HTML_BYTES, || html().into_bytes())?;
    create_images(&directory.join("images"))
}

/// Creates the pages with five images.
fn create_images(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    for (size, bytes) in IMAGES {
        let names = (0..IMAGES_OF_A_PAGE).map(|number| format!("{size}-{number}.png"));
        for name in names.clone() {
            write(&directory.join(name), bytes, || content(bytes))?;
        }
        let html: String = names.map(|name| format!("<img src={name}>")).collect();
        write(&directory.join(format!("{size}.html")), html.len(), || html.clone().into_bytes())?;
    }
    Ok(())
}

/// Returns the name of one of the page's objects: styles and scripts first, then images.
fn object(number: usize) -> String {
    match number {
        0..4 => format!("{number}.css"),
        4..10 => format!("{number}.js"),
        _ => format!("{number}.png"),
    }
}

/// Returns the page: everything that it loads stands in its first part, as on most pages, and is discovered once
/// all of it has arrived.
fn html() -> String {
    let mut text = "<!DOCTYPE html>\n<html lang=\"en\">\n<title>A page</title>\n".to_owned();
    for number in 0..OBJECTS {
        let name = object(number);
        // Writing to a string doesn't fail.
        let _ = match number {
            0..4 => writeln!(text, "<link rel=\"stylesheet\" href=\"{name}\">"),
            4..10 => writeln!(text, "<script src=\"{name}\"></script>"),
            _ => writeln!(text, "<img src=\"{name}\" alt=\"\">"),
        };
    }
    let (begin, end) = ("<p>", "</p>\n</html>\n");
    let rest = HTML_BYTES.saturating_sub(text.len() + begin.len() + end.len());
    text += begin;
    text.extend("All work and no play. ".chars().cycle().take(rest));
    text + end
}

/// Returns bytes that compress badly, so that no part of the network can make them fewer.
fn content(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state.to_le_bytes())
    };
    std::iter::from_fn(next).flatten().take(bytes).collect()
}

/// Writes a file unless it has this length already.
fn write(path: &Path, bytes: usize, content: impl FnOnce() -> Vec<u8>) -> Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.len() == bytes as u64) {
        return Ok(());
    }
    fs::write(path, content()).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests;
