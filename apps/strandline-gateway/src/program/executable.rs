//! What the file of a program says about whether the loader would load a library into it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Result, bail};

/// What to do with a program that no library is loaded into.
const INSTEAD: &str = "let nftables redirect its connections instead (docs/gateway.md, All connections of a host), or use \
                       its own support of SOCKS5 or HTTP proxies";
const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;
const NOTE: u32 = 4;
/// Most program headers, and bytes of a note, that are read.
const HEADERS_MAX: usize = 128;
const NOTE_MAX: usize = 4096;

/// What the header of an ELF file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A script for this interpreter.
    Script(String),
    /// A program with a loader, whose path this is.
    Dynamic(String),
    /// A program without a loader.
    Static,
    /// A program of Go, which does not call the C library.
    Go,
    /// A program for another processor, or of another word size.
    Foreign,
    /// Something else, or unreadable.
    Unknown,
}

/// Returns whether a file may be executed by somebody.
pub(super) fn may_run(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

/// Refuses a program that no library would be loaded into. What can't be read is not refused.
///
/// # Errors
/// If it is such a program. The text says what to do.
pub(super) fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    let mut kind = kind_of_file(path);
    if let Kind::Script(interpreter) = kind {
        kind = kind_of_file(Path::new(&interpreter));
    }
    match kind {
        Kind::Static => bail!("{shown} is statically linked, so no library can be loaded into it: {INSTEAD}"),
        Kind::Go => bail!("{shown} is a Go program, which calls the kernel without the C library: {INSTEAD}"),
        Kind::Foreign => bail!("{shown} is for another processor or word size than this program: {INSTEAD}"),
        Kind::Dynamic(loader) if loader.contains("ld-musl") => {
            bail!("{shown} uses the C library musl, and the library is one for glibc: {INSTEAD}")
        }
        _ => {}
    }
    if changes_rights(path) {
        bail!(
            "{shown} gets other rights than yours when it starts, and then the loader loads no library: {INSTEAD}"
        );
    }
    Ok(())
}

/// Returns whether a program starts with other rights: those of its owner or group, or capabilities.
fn changes_rights(path: &Path) -> bool {
    let Ok(meta) = path.metadata() else { return false };
    let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let has_capabilities =
        own.0 != 0 && rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 64]).is_ok();
    (meta.mode() & 0o4000 != 0 && meta.uid() != own.0)
        || (meta.mode() & 0o2000 != 0 && meta.gid() != own.1)
        || has_capabilities
}

fn kind_of_file(path: &Path) -> Kind {
    let Ok(mut file) = File::open(path) else { return Kind::Unknown };
    let mut head = Vec::new();
    match (&mut file).take(64 << 10).read_to_end(&mut head) {
        Ok(_) => kind(&head, |offset, len| {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
        }),
        Err(_) => Kind::Unknown,
    }
}

/// Returns what a file is by its first bytes. `read` reads others.
pub(super) fn kind(head: &[u8], read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Kind {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line.get(..line.len().min(256)).unwrap_or_default());
        return match line.split_whitespace().next() {
            Some(interpreter) => Kind::Script(interpreter.to_owned()),
            None => Kind::Unknown,
        };
    }
    let own = (if cfg!(target_pointer_width = "64") { 2 } else { 1 }, machine());
    match (head.get(..4), head.get(4), head.get(18..20)) {
        (Some(b"\x7fELF"), Some(class), Some(found)) => {
            if (*class, found) != (own.0, &own.1[..]) {
                return Kind::Foreign;
            }
        }
        _ => return Kind::Unknown,
    }
    of_program_headers(head, read).unwrap_or(Kind::Unknown)
}

/// e_machine of this program, as it is in the file.
fn machine() -> [u8; 2] {
    let number: u16 = match std::env::consts::ARCH {
        "x86_64" => 62,
        "x86" => 3,
        "aarch64" => 183,
        "arm" => 40,
        "riscv64" => 243,
        "powerpc64" => 21,
        "s390x" => 22,
        "loongarch64" => 258,
        _ => 0,
    };
    number.to_ne_bytes()
}

/// Reads the program headers of an ELF file for this processor (elf(5)); `None` if they are damaged, or of 32 bits.
fn of_program_headers(head: &[u8], read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Kind> {
    if cfg!(target_pointer_width = "32") {
        return None;
    }
    let long = |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u16::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let (offset, size, count) = (long(head, 32)?, usize::from(short(54)?), usize::from(short(56)?));
    if size < 56 || count > HEADERS_MAX {
        return None;
    }
    let table = read(offset, size * count)?;
    let mut loader = None;
    let mut has_code = false;
    for header in table.chunks_exact(size) {
        let kind = u32::from_ne_bytes(*header.first_chunk()?);
        let (at, len) = (long(header, 8)?, usize::try_from(long(header, 32)?).ok()?);
        match kind {
            LOAD => has_code = true,
            INTERPRETER => {
                let path = read(at, len.min(NOTE_MAX))?;
                loader = Some(String::from_utf8_lossy(&path).trim_end_matches('\0').to_owned());
            }
            // A note is the lengths of its name and content, its type, and the name.
            NOTE if read(at, len.min(NOTE_MAX))?.get(12..16) == Some(b"Go\0\0") => return Some(Kind::Go),
            _ => {}
        }
    }
    match loader {
        Some(loader) => Some(Kind::Dynamic(loader)),
        None => has_code.then_some(Kind::Static),
    }
}
