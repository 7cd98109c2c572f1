//! `strandline http get`: fetches URLs in parallel over the streams of one association, or over TCP.

mod dial;
mod failure;
mod fetch;
mod output;
mod page;
mod transport;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;
use strandline::AssociationConfig;
use strandline_output::{errln, outln};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use url::Url;

use self::dial::Trust;
use self::failure::Failure;
use self::fetch::Fetch;
use self::output::{Existing, Names, Output};
use self::transport::Transports;
use crate::client::outgoing_stack;

/// Objects of a page that are fetched at most.
const PAGE_OBJECTS_MAX: usize = 1000;
/// Time for the graceful end of associations.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// `strandline http get`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline http get http+sctp://127.0.0.1:8080/            one page to standard output, over SCTP
  strandline http get http://127.0.0.1:8080/a http://127.0.0.1:8080/b --directory downloads
                                                             TCP at once, SCTP as soon as it answers
  strandline http get https://www.example.com/ --cacert authorities.pem
                                                             TLS on TCP
  strandline http get --page http+sctp://127.0.0.1:8080/ --directory page --json
                                                             a page with its images, styles and scripts
Exit codes are curl's: 3 malformed URL, 6 unknown host, 7 no connection, 18 partial file, 22 status 400 or
more, 23 can't write, 28 time-out, 35 TLS failed, 47 too many redirections, 52 no response, 56 connection
failed, 60 certificate not accepted")]
pub struct Args {
    /// http+sctp:// for SCTP, http:// for whichever of TCP and SCTP answers first, https:// for TLS on TCP
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// Write the response to this file (one URL)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["directory", "page"])]
    output: Option<PathBuf>,
    /// Write each response to a file in this directory, named by the end of its path. Default for several URLs:
    /// the current directory
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Fetch the images, styles and scripts of each page, too, to new files
    #[arg(long)]
    page: bool,
    /// Replace existing files that have the names of a page's images, styles and scripts
    #[arg(long, requires = "page")]
    force: bool,
    /// Requests at the same time
    #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    parallel: u16,
    /// UDP port of servers on SCTP that announce none
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    encapsulation_port: u16,
    /// PEM file with the authorities that servers of https are verified by
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    cacert: PathBuf,
    /// Accept any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Go on where a file ends that is there already; with --page only --force continues images, styles and scripts
    #[arg(short = 'C', long = "continue")]
    resume: bool,
    /// Times that a request is repeated if its connection fails, or the server answers 429, 502, 503 or 504
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    retry: u32,
    /// Seconds for each URL
    #[arg(short = 'm', long, value_name = "SECS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    max_time: u32,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Report each response as a line of JSON on standard output; bodies go to files only
    #[arg(long)]
    json: bool,
}

/// The result of one URL.
#[derive(Debug, Clone, Serialize)]
struct Report {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Bytes of the body that were received.
    bytes: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Fetches the URLs. The exit code is that of the first one that failed.
///
/// # Errors
/// If the program can't begin.
pub fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            code = fetch_all(args) => Ok(ExitCode::from(code?)),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
        }
    })
}

async fn fetch_all(args: &Args) -> Result<u8> {
    let stack = outgoing_stack(&AssociationConfig::default())?;
    let trust = Trust { authorities: args.cacert.clone(), is_insecure: args.insecure };
    let transports = Arc::new(Transports::new(stack.clone(), args.encapsulation_port, trust));
    let work = Arc::new(Work {
        transports,
        permits: Semaphore::new(args.parallel.into()),
        bars: if args.quiet { None } else { Some(MultiProgress::new()) },
        names: Mutex::default(),
        args: args.clone(),
    });
    let mut urls = Vec::new();
    let mut code = 0;
    for text in &args.urls {
        match parse(text) {
            Ok(url) => urls.push(url),
            Err(failure) => {
                let report = failed(text.clone(), &failure);
                code = work.report(&report, Some(&failure), code)?;
            }
        }
    }
    let by = if args.urls.len() == 1 && !args.page { NamedBy::OneArgument } else { NamedBy::Arguments };
    let mut pages = Vec::new();
    for done in fetch_together(&work, urls, by).await {
        code = work.report(&done.report, done.failure.as_ref(), code)?;
        pages.extend(done.page.map(|html| (done.url, html)));
    }
    if args.page {
        let mut objects = Vec::new();
        for (url, html) in &pages {
            for object in page::objects(url, html) {
                if !objects.contains(&object) && objects.len() < PAGE_OBJECTS_MAX {
                    objects.push(object);
                }
            }
        }
        for done in fetch_together(&work, objects, NamedBy::Page).await {
            code = work.report(&done.report, done.failure.as_ref(), code)?;
        }
    }
    drop(work);
    // Servers learn that the associations end.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, stack.wait_idle()).await;
    Ok(code)
}

fn parse(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).map_err(|error| Failure::Url(error.to_string()))?;
    match url.scheme() {
        "http" | "https" | "http+sctp" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(url),
        "http" | "https" | "http+sctp" => Err(Failure::Url("no host".to_owned())),
        other => Err(Failure::Scheme(other.to_owned())),
    }
}

fn failed(url: String, failure: &Failure) -> Report {
    let error = Some(failure.to_string());
    Report { url, status: None, bytes: 0, seconds: 0.0, transport: None, file: None, error }
}

/// What the fetches share.
struct Work {
    transports: Arc<Transports>,
    permits: Semaphore,
    bars: Option<MultiProgress>,
    names: Mutex<Names>,
    args: Args,
}

/// A URL that was fetched.
struct Done {
    url: Url,
    report: Report,
    failure: Option<Failure>,
    /// With `--page`, the page's text.
    page: Option<String>,
}

impl Work {
    /// Prints the result of a URL. Returns the exit code so far.
    fn report(&self, report: &Report, failure: Option<&Failure>, code: u8) -> Result<u8> {
        if self.args.json {
            outln!("{}", serde_json::to_string(report)?);
        } else if let Some(failure) = failure {
            errln!("strandline: {}: {failure}", report.url);
        }
        Ok(match failure {
            Some(failure) if code == 0 => failure.exit_code(),
            _ => code,
        })
    }

    fn bar(&self, url: &Url) -> ProgressBar {
        let Some(bars) = &self.bars else { return ProgressBar::hidden() };
        let bar = bars.add(ProgressBar::no_length());
        let style = "  {prefix:<40!} {bar:24} {bytes:>10}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(url.path().to_owned());
        bar
    }

    /// Returns where the response to a URL goes.
    fn output(&self, url: &Url, by: NamedBy) -> Output {
        if let Some(file) = &self.args.output {
            return Output::File { path: file.clone(), existing: Existing::Opened };
        }
        let existing = match by {
            NamedBy::Page if self.args.force => Existing::Replaced,
            NamedBy::Page => Existing::Kept,
            NamedBy::OneArgument | NamedBy::Arguments => Existing::Opened,
        };
        let directory = match (&self.args.directory, by) {
            (Some(directory), _) => directory,
            (None, NamedBy::OneArgument) if self.args.json => return Output::Nothing,
            (None, NamedBy::OneArgument) => return Output::Standard,
            (None, _) => Path::new(""),
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.file(directory, url, existing)
    }
}

/// What has named a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    /// The only argument.
    OneArgument,
    /// One of several arguments, or a page's.
    Arguments,
    /// A page that was fetched.
    Page,
}

/// Fetches URLs at the same time, and returns the results in their order.
async fn fetch_together(work: &Arc<Work>, urls: Vec<Url>, by: NamedBy) -> Vec<Done> {
    let tasks = urls
        .into_iter()
        .map(|url| {
            let work = Arc::clone(work);
            let output = work.output(&url, by);
            tokio::spawn(async move {
                let permit = work.permits.acquire().await;
                let fetch = Fetch {
                    url: &url,
                    output,
                    resume: work.args.resume,
                    retries: work.args.retry,
                    limit: Duration::from_secs(work.args.max_time.into()),
                    keeps_text: work.args.page,
                    bar: work.bar(&url),
                };
                let (report, failure, page) = fetch.run(&work.transports).await;
                drop(permit);
                Done { url, report, failure, page }
            })
        })
        .collect();
    in_order(tasks).await
}

/// Returns the results of tasks in their order. If one panics, this does, too.
async fn in_order<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut all = Vec::new();
    for task in tasks {
        match task.await {
            Ok(result) => all.push(result),
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
