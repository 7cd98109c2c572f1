//! Fuzz target: any bytes as a configuration file. The files that it names aren't read.
#![allow(clippy::panic, reason = "a fuzz target stops at what breaks a promise")]

use std::path::Path;

use super::file::File;
use super::{ConfigError, check};

/// A valid configuration has something to do, and its values are within their limits. An error names what is wrong, and
/// the line if the file has the key.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut file: File = match toml::from_str(text) {
        Ok(file) => file,
        Err(cause) => return assert!(!cause.to_string().is_empty()),
    };
    assert!(toml::from_str::<toml::Table>(text).is_ok(), "what has the known keys is a document");
    (file.encryption, file.admin_token) = (None, None);
    file.peer.iter_mut().for_each(|peer| peer.trust.clear());
    match check(&file, None) {
        Ok(settings) => {
            assert!(settings.listen.is_some() || !settings.peers.is_empty());
            assert!(settings.shards.is_none_or(|shards| (1..=64).contains(&shards)));
            assert!(settings.peers.iter().all(|peer| !peer.addresses.is_empty() && !peer.name.is_empty()));
            assert!(settings.encryption.is_none());
        }
        Err(error) => {
            let path = Path::new("gateway.toml");
            let error = error.in_file(path, text);
            let all = match error {
                ConfigError::Several(all) => all,
                one => vec![one],
            };
            for error in all {
                if let ConfigError::Value { place: Some((of, line)), .. } = &error {
                    assert!(of == path && (1..=text.split('\n').count()).contains(line), "line {line}");
                }
                let said = error.to_string();
                // Quoted text may need escapes.
                assert!(!said.is_empty() && said.len() <= 12 * bytes.len() + 4096, "{said}");
            }
        }
    }
}
