//! Options of `strandline http get`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::encryption::SctpEncryption;

/// `strandline http get`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline http get http+sctp://127.0.0.1:8080/            one page to standard output, over SCTP
  strandline http get http://127.0.0.1:8080/a http://127.0.0.1:8080/b -d downloads --create-dirs
                                                             TCP at once, SCTP as soon as it answers
  strandline http get https://www.example.com/ --cacert authorities.pem
                                                             TLS on TCP
  strandline http get localhost:8080/a localhost:8080/b -o one -o two -C -
                                                             to a file each, resuming partial ones
  strandline http get --page http+sctp://127.0.0.1:8080/ -d page --create-dirs --json
                                                             a page with its images, styles and scripts
The exit code is that of the first URL that failed, in the order given: 2 wrong options, 3 malformed URL, 6 unknown host, 7 no connection, 18 partial file, 22 status
400 or more, 23 can't write, 28 time-out, 33 the server can't continue the file, 35 TLS failed, 47 too many
redirections, 52 no response, 56 connection failed, 60 certificate not accepted, 63 too large")]
pub struct Args {
    /// http+sctp:// for SCTP, http:// for whichever of TCP and SCTP answers first, https:// for TLS on TCP.
    /// Without a scheme it is http://. USER:PASSWORD@ before the host is for Basic authentication
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// Write the response to this file (-: standard output). Repeat for each URL; a URL without -o goes to stdout
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["directory", "page"])]
    pub(super) output: Vec<PathBuf>,
    /// Write each response to a file in this directory, named by the end of its path. Default for several URLs:
    /// the current directory
    #[arg(short, long, value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
    /// Create the directory of -d or -o if it is missing
    #[arg(long)]
    pub(super) create_dirs: bool,
    /// Fetch the images, styles and scripts of each page, and what its styles load, too, to new files
    #[arg(long)]
    pub(super) page: bool,
    /// Replace existing files that have the names of a page's images, styles and scripts
    #[arg(long, requires = "page")]
    pub(super) force: bool,
    /// Requests at the same time
    #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) parallel: u16,
    /// UDP port of servers on SCTP that announce none
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(super) encapsulation_port: u16,
    /// Encryption of SCTP: of URLs with http+sctp://. Those with http:// are refused then
    #[command(flatten)]
    pub(super) encryption: SctpEncryption,
    /// PEM file with the authorities that servers of https are verified by
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    pub(super) cacert: PathBuf,
    /// Accept any certificate
    #[arg(short = 'k', long)]
    pub(super) insecure: bool,
    /// Resume a partial download (-C -, as curl). With --page, images, styles and scripts are resumed only with --force
    #[arg(short = 'C', long, value_name = "-", value_parser = ["-"])]
    pub(super) continue_at: Option<String>,
    /// Resume a partial download, as -C - (the name of wget's option)
    #[arg(short = 'c', long = "continue")]
    pub(super) resume: bool,
    /// Times that a request is repeated if its connection fails or stalls, or the server answers 408, 429,
    /// 500, 502, 503 or 504
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(super) retry: u32,
    /// Seconds for each URL, such as 0.5; 0: no limit
    #[arg(short = 'm', long, value_name = "SECS", default_value = "0", value_parser = seconds)]
    pub(super) max_time: Duration,
    /// Seconds to connect; 0: no limit
    #[arg(long, value_name = "SECS", default_value = "30", value_parser = seconds)]
    pub(super) connect_timeout: Duration,
    /// Fail a response that receives no byte for SECS; 0: no limit
    #[arg(short = 'y', long, value_name = "SECS", default_value = "60", value_parser = seconds)]
    pub(super) speed_time: Duration,
    /// Maximum response size
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_filesize: Option<u64>,
    /// Show no progress
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Report each response as a line of JSON on standard output; bodies go to files only
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// Returns what is wrong with the options together.
    pub(super) fn flaw(&self) -> Option<String> {
        let shown = (0..self.urls.len()).filter(|number| self.is_shown(*number)).count();
        if shown > 1 {
            return Some(format!(
                "{shown} responses would be mixed on standard output: -o FILE names a file for each URL in turn, -d DIR \
                 a directory for all"
            ));
        }
        let mut names = HashSet::new();
        // Two responses may go to /dev/null, or to one pipe.
        let mut files = self.files().filter(|file| file.metadata().map_or(true, |file| file.is_file()));
        if let Some(twice) = files.find(|file| !names.insert(*file)) {
            return Some(format!("-o names {} for two URLs", twice.display()));
        }
        if self.json && self.output.iter().any(|file| is_standard(file)) {
            return Some("--json and -o - both write to standard output: name a file".to_owned());
        }
        if self.resumes() && shown > 0 {
            return Some(
                "-C goes on where a file ends: name the file with -o, or its directory with -d".to_owned(),
            );
        }
        None
    }

    /// Returns whether files are continued.
    pub(super) const fn resumes(&self) -> bool {
        self.resume || self.continue_at.is_some()
    }

    /// Returns whether a URL of the command line has no file: its response goes to standard output.
    pub(super) fn is_shown(&self, number: usize) -> bool {
        match self.output.get(number) {
            Some(file) => is_standard(file),
            None => {
                self.directory.is_none() && !self.page && (self.urls.len() == 1 || !self.output.is_empty())
            }
        }
    }

    /// Returns the directories that files are written to, if they aren't the current one.
    pub(super) fn directories_of_files(&self) -> impl Iterator<Item = &Path> {
        let of_files = self.files().filter_map(Path::parent);
        self.directory.as_deref().into_iter().chain(of_files).filter(|path| !path.as_os_str().is_empty())
    }

    /// Returns the files that `-o` names.
    fn files(&self) -> impl Iterator<Item = &Path> {
        self.output.iter().map(PathBuf::as_path).filter(|file| !is_standard(file))
    }
}

/// Returns whether `-o` names standard output.
fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

/// Longest time that is a limit.
const SECONDS_MAX: f64 = 1e9;

/// Parses seconds with a fraction. 0 is no limit, as for curl: a time that never passes.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "seconds are a number, such as 30 or 0.5".to_owned())?;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("seconds are between 0 and {SECONDS_MAX}"));
    }
    let limit = if seconds == 0.0 { SECONDS_MAX } else { seconds };
    Ok(Duration::from_secs_f64(limit))
}

#[cfg(test)]
mod tests;
