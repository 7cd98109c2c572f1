//! Options of `strandline http get`.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// `strandline http get`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline http get http+sctp://127.0.0.1:8080/            one page to standard output, over SCTP
  strandline http get http://127.0.0.1:8080/a http://127.0.0.1:8080/b -d downloads --create-dirs
                                                             TCP at once, SCTP as soon as it answers
  strandline http get https://www.example.com/ --cacert authorities.pem
                                                             TLS on TCP
  strandline http get --page http+sctp://127.0.0.1:8080/ -d page --create-dirs --json
                                                             a page with its images, styles and scripts
Exit codes are curl's: 2 wrong options, 3 malformed URL, 6 unknown host, 7 no connection, 18 partial file, 22 status
400 or more, 23 can't write, 28 time-out, 33 the server can't continue the file, 35 TLS failed, 47 too many
redirections, 52 no response, 56 connection failed, 60 certificate not accepted, 63 too large")]
pub struct Args {
    /// http+sctp:// for SCTP, http:// for whichever of TCP and SCTP answers first, https:// for TLS on TCP.
    /// USER:PASSWORD@ before the host is for Basic authentication
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// Write the response to this file (one URL; -: standard output)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["directory", "page"])]
    pub(super) output: Option<PathBuf>,
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
    /// PEM file with the authorities that servers of https are verified by
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    pub(super) cacert: PathBuf,
    /// Accept any certificate
    #[arg(short = 'k', long)]
    pub(super) insecure: bool,
    /// Go on where a file ends that is there already; with --page only --force continues images, styles and scripts
    #[arg(short = 'C', long = "continue")]
    pub(super) resume: bool,
    /// Times that a request is repeated if its connection fails or stalls, or the server answers 408, 429, 500, 502, 503
    /// or 504
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(super) retry: u32,
    /// Seconds for each URL, such as 0.5; 0: no limit
    #[arg(short = 'm', long, value_name = "SECS", default_value = "0", value_parser = seconds)]
    pub(super) max_time: Duration,
    /// Seconds to connect; 0: no limit
    #[arg(long, value_name = "SECS", default_value = "30", value_parser = seconds)]
    pub(super) connect_timeout: Duration,
    /// Seconds without a byte of the response after which it has failed; 0: no limit
    #[arg(short = 'y', long, value_name = "SECS", default_value = "60", value_parser = seconds)]
    pub(super) speed_time: Duration,
    /// Bytes of a response at most
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
        if self.output.is_some() && self.urls.len() > 1 {
            return Some(format!(
                "-o takes the response of one URL, and there are {}: -d DIR writes each to a file of its own",
                self.urls.len()
            ));
        }
        if self.json && self.is_standard_output() {
            return Some("--json and -o - both write to standard output: name a file".to_owned());
        }
        let is_shown = self.is_standard_output() || (self.output.is_none() && self.urls.len() == 1);
        if self.resume && is_shown && self.directory.is_none() && !self.page {
            return Some(
                "-C goes on where a file ends: name the file with -o, or its directory with -d".to_owned(),
            );
        }
        None
    }

    /// Returns whether `-o -` names standard output.
    pub(super) fn is_standard_output(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// Returns the directory that files are written to, if it is not the current one.
    pub(super) fn directory_of_files(&self) -> Option<&Path> {
        let of_output = self.output.as_deref().and_then(Path::parent);
        self.directory.as_deref().or(of_output).filter(|path| !path.as_os_str().is_empty())
    }
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
