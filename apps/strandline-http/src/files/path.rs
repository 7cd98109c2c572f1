//! The path of a request's target, decoded.

/// Longest path that is looked up, in bytes: PATH_MAX of Linux.
const PATH_MAX: usize = 4096;

/// A decoded path below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Names joined by `/`, without one at either end; empty for the root itself. No name is empty, `.`, `..` or
    /// hidden, or holds a NUL.
    pub(super) path: String,
    /// Whether the target ended with `/`.
    pub(super) is_directory: bool,
}

impl Target {
    /// Parses the path of a URI; `None` if it can name nothing that is served.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let rest = path.strip_prefix('/')?;
        let mut names = Vec::new();
        for name in rest.split('/').filter(|name| !name.is_empty()) {
            let name = decode(name)?;
            let is_hidden = name.starts_with('.') && name != ".well-known";
            if is_hidden || name.contains(['/', '\0']) {
                return None;
            }
            names.push(name);
        }
        let is_directory = names.is_empty() || path.ends_with('/');
        let path = names.join("/");
        (path.len() < PATH_MAX).then_some(Self { path, is_directory })
    }
}

/// Decodes a name; `None` if a percent sign isn't followed by two digits, or the result isn't UTF-8.
fn decode(name: &str) -> Option<String> {
    let mut bytes = name.bytes();
    let mut decoded = Vec::with_capacity(name.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { digit(bytes.next()?)? << 4 | digit(bytes.next()?)? } else { byte });
    }
    String::from_utf8(decoded).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Encodes a name for a link.
pub(super) fn encode(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
