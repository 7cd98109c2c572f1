//! The listing of a directory without an index file.

use std::fs::File;
use std::io;

use rustix::fs::{Dir, FileType};

use super::path::encode;

/// Entries listed at most.
const ENTRIES_MAX: usize = 10_000;

/// Returns the listing of a directory as HTML. Hidden files, which aren't served, are not listed.
pub(super) fn html(directory: &File, path: &str) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let is_directory = entry.file_type() == FileType::Directory;
        if !name.starts_with('.')
            && (is_directory || matches!(entry.file_type(), FileType::RegularFile | FileType::Symlink))
        {
            names.push((!is_directory, name.to_owned()));
        }
    }
    names.sort();
    let title = escape(&format!("/{path}"));
    let mut html =
        format!("<!doctype html>\n<meta charset=utf-8>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n");
    if !path.is_empty() {
        html.push_str("<li><a href=\"../\">../</a>\n");
    }
    for (is_file, name) in names {
        let slash = if is_file { "" } else { "/" };
        html.push_str(&format!("<li><a href=\"./{}{slash}\">{}{slash}</a>\n", encode(&name), escape(&name)));
    }
    html.push_str("</ul>\n");
    Ok(html)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
