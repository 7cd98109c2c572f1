//! Keys of encrypted associations: `strandline keygen` makes one, `strandline trust` edits the list of known hosts.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use strandline::encryption::{
    Fingerprint, KnownHost, KnownHostsFile, create_identity, default_key, default_known_hosts, read_identity,
};
use strandline_output::out;

/// Arguments of `strandline keygen`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline keygen                      make this user's key, and print its fingerprint
  strandline keygen --out server.pem     another one, for a server
  strandline keygen --show               print the fingerprint of this user's key
On the other host: strandline trust add NAME FINGERPRINT. docs/encryption.md has more.")]
pub struct Keygen {
    /// File to write the key to, which only its owner can read [default: ~/.config/strandline/key.pem]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name in the key's certificate, only informative [default: strandline]
    #[arg(long, default_value = "strandline", hide_default_value = true)]
    name: String,
    /// Print the fingerprint of the key that is in the file already
    #[arg(long)]
    show: bool,
}

/// The commands of `strandline trust`.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Trust {
    /// Add a host and its key to the known hosts
    #[command(after_help = "\
Examples:
  strandline trust add server.example SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
  strandline trust add '[192.0.2.7]:9899' SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU office
On that host, strandline keygen --show prints the fingerprint.")]
    Add {
        /// Name or address of the host, or `[ADDRESS]:PORT`
        name: String,
        /// Fingerprint of its key
        fingerprint: Fingerprint,
        /// Comment for readers of the list
        comment: Vec<String>,
        /// The list
        #[command(flatten)]
        list: ListFile,
    },
    /// Print the known hosts
    #[command(after_help = "\
Examples:
  strandline trust list
  strandline trust list --file /etc/strandline/known_hosts")]
    List {
        /// The list
        #[command(flatten)]
        list: ListFile,
    },
    /// Remove a host, or a key, from the known hosts
    #[command(after_help = "\
Examples:
  strandline trust remove server.example
  strandline trust remove SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU")]
    Remove {
        /// Name or fingerprint, as in the list
        what: String,
        /// The list
        #[command(flatten)]
        list: ListFile,
    },
}

/// Which list is meant.
#[derive(Debug, Clone, clap::Args)]
pub struct ListFile {
    /// File with the list [default: ~/.config/strandline/known_hosts]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Keygen {
    /// Makes a key, or shows one.
    ///
    /// # Errors
    /// If the file exists, or can't be written or read.
    pub fn run(&self) -> Result<()> {
        let path =
            self.out.clone().or_else(default_key).context("there is no home directory: use --out FILE")?;
        if self.show {
            out!("{}\n", read_identity(&path)?.fingerprint());
            return Ok(());
        }
        if path.exists() {
            bail!("{} already exists; not overwritten. --show prints its fingerprint", path.display());
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        let fingerprint = create_identity(&path, &self.name)?;
        out!("{}\n{fingerprint}\n", path.display());
        Ok(())
    }
}

impl Trust {
    /// Edits or prints the list.
    ///
    /// # Errors
    /// If the list can't be read or written, or has no such host.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Add { name, fingerprint, comment, list } => {
                if name.is_empty() || name.contains(char::is_whitespace) || name.starts_with('#') {
                    bail!("{name:?} is not a host name or address");
                }
                let host = KnownHost {
                    name: name.clone(),
                    fingerprint: *fingerprint,
                    comment: comment.join(" ").replace(char::is_control, " "),
                };
                list.open()?.change(|hosts| hosts.add(host))?;
                Ok(())
            }
            Self::List { list } => {
                for host in list.open()?.read()?.hosts() {
                    out!("{host}\n");
                }
                Ok(())
            }
            Self::Remove { what, list } => {
                if list.open()?.change(|hosts| hosts.remove(what))? == 0 {
                    bail!("no known host has the name or fingerprint {what}");
                }
                Ok(())
            }
        }
    }
}

impl ListFile {
    fn open(&self) -> Result<KnownHostsFile> {
        let file = self.file.clone().or_else(default_known_hosts);
        Ok(KnownHostsFile::new(file.context("there is no home directory: use --file FILE")?))
    }
}

#[cfg(test)]
mod tests;
