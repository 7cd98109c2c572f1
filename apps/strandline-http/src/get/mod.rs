//! `strandline http get`: fetches URLs in parallel over the streams of one association, or over TCP.

mod args;
mod dial;
mod failure;
mod fetch;
mod output;
mod page;
mod range;
mod request;
mod transport;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
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

pub use self::args::Args;
use self::dial::Trust;
use self::failure::Failure;
use self::fetch::{Fetch, Limits, Search, Text};
use self::output::{Existing, Names, Output};
use self::page::Objects;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::page::fuzz as fuzz_page;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::range::fuzz as fuzz_range;
use self::transport::{Patience, Transports};
use crate::client::outgoing_stack;
use crate::urls;
use crate::usage::Usage;

/// Objects of pages that are fetched at most in a run.
const PAGE_OBJECTS_MAX: usize = 1000;
/// Bytes of them all together.
const PAGE_BYTES_MAX: u64 = 4 << 30;
/// Style sheets that import one another: the depth.
const STYLE_DEPTH_MAX: usize = 5;
/// Bytes of pages and style sheets that are searched for objects, all together.
const TEXTS_MAX: u64 = 128 << 20;
/// Time for the graceful end of associations.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Fetches the URLs. The exit code is that of the first one that failed, in their order.
///
/// # Errors
/// If the options contradict one another, or the program can't begin.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(flaw) = args.flaw() {
        return Err(Usage(flaw).into());
    }
    if args.output.len() > args.urls.len() {
        errln!("strandline: warning: -o is given more often than a URL");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            code = fetch_all(args) => Ok(ExitCode::from(code?)),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
        }
    })
}

async fn fetch_all(args: &Args) -> Result<u8> {
    if let Err(failure) = prepare(args) {
        errln!("strandline: {failure}");
        return Ok(failure.exit_code());
    }
    let encryption = args.encryption.load()?;
    let stack = outgoing_stack(&AssociationConfig::default(), encryption.as_ref())?;
    let trust = Trust { authorities: args.cacert.clone(), is_insecure: args.insecure };
    let patience = Patience { connect: args.connect_timeout, stall: args.speed_time };
    let transports = Transports::new(stack.clone(), args.encapsulation_port, trust, patience);
    let transports = if encryption.is_some() { transports.encrypted_only() } else { transports };
    let work = Arc::new(Work {
        transports,
        permits: Semaphore::new(args.parallel.into()),
        bars: if args.quiet { None } else { Some(MultiProgress::new()) },
        names: Mutex::default(),
        page_bytes: AtomicU64::new(PAGE_BYTES_MAX),
        texts: AtomicU64::new(TEXTS_MAX),
        args: args.clone(),
    });
    let search = if args.page { Search::Page } else { Search::Nothing };
    let (mut pages, mut malformed) = (Vec::new(), HashMap::new());
    for (number, text) in args.urls.iter().enumerate() {
        match parse(text) {
            Ok(url) => pages.push((url, search, NamedBy::Argument(number))),
            Err(failure) => {
                malformed.insert(number, failure);
            }
        }
    }
    let mut code = 0;
    let mut objects = Objects::new(PAGE_OBJECTS_MAX);
    let mut texts = Vec::new();
    let mut fetched = fetch_together(&work, pages).await.into_iter();
    for (number, text) in args.urls.iter().enumerate() {
        if let Some(failure) = malformed.remove(&number) {
            code = work.report(&failed(text.clone(), &failure), Some(&failure), code)?;
        } else if let Some(done) = fetched.next() {
            code = work.report(&done.report, done.failure.as_ref(), code)?;
            objects.exclude(&done.url);
            texts.extend(done.text);
        }
    }
    code = fetch_objects(&work, objects, texts, code).await?;
    drop(work);
    // Servers learn that the associations end.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, stack.wait_idle()).await;
    Ok(code)
}

/// Fetches what texts load, and what the style sheets among that load. Returns the exit code so far.
async fn fetch_objects(
    work: &Arc<Work>,
    mut objects: Objects,
    mut texts: Vec<Text>,
    mut code: u8,
) -> Result<u8> {
    for _ in 0..=STYLE_DEPTH_MAX {
        for Text { base, kind, text } in texts.drain(..) {
            objects.search(&base, &text, kind);
        }
        let found = objects.take();
        if found.is_empty() {
            break;
        }
        let found = found
            .into_iter()
            .map(|object| (object.url, Search::Object { is_style: object.is_style }, NamedBy::Page));
        for done in fetch_together(work, found.collect()).await {
            code = work.report(&done.report, done.failure.as_ref(), code)?;
            texts.extend(done.text);
        }
    }
    if objects.was_full() {
        errln!(
            "strandline: the pages load more than {PAGE_OBJECTS_MAX} objects: the others were not fetched"
        );
    }
    Ok(code)
}

/// Makes sure that the directories of the files exist.
fn prepare(args: &Args) -> Result<(), Failure> {
    for directory in args.directories_of_files() {
        let file = directory.display().to_string();
        if args.create_dirs {
            std::fs::create_dir_all(directory).map_err(|cause| Failure::Write { file, cause })?;
        } else if !directory.is_dir() {
            return Err(Failure::Directory(file));
        }
    }
    Ok(())
}

/// Parses a URL of the command line. One without a scheme is http, as for curl: `localhost:8080/`.
fn parse(text: &str) -> Result<Url, Failure> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
    // With one slash this is no host without a scheme.
    let has_one_slash = ["http:/", "https:/"].iter().any(|begin| begins_with(text, begin));
    let url = match scheme {
        Some(_) => urls::parse(text),
        None if has_one_slash => urls::parse(text),
        None if text.starts_with('/') => return Err(Failure::Url("no host".to_owned())),
        None => urls::parse(&format!("http://{text}")),
    };
    let url = url.map_err(Failure::Url)?;
    match url.scheme() {
        "http" | "https" | "http+sctp" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(url),
        "http" | "https" | "http+sctp" => Err(Failure::Url("no host".to_owned())),
        other => Err(Failure::Scheme(other.to_owned())),
    }
}

fn begins_with(text: &str, begin: &str) -> bool {
    text.get(..begin.len()).is_some_and(|text| text.eq_ignore_ascii_case(begin))
}

/// Returns whether a text is the scheme of a URL (RFC 3986 section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn failed(url: String, failure: &Failure) -> Report {
    let error = Some(failure.to_string());
    Report { url, status: None, bytes: 0, seconds: 0.0, transport: None, file: None, error }
}

/// What the fetches share.
struct Work {
    transports: Transports,
    permits: Semaphore,
    bars: Option<MultiProgress>,
    names: Mutex<Names>,
    /// Bytes of objects that are left.
    page_bytes: AtomicU64,
    /// Bytes of texts to search that are left.
    texts: AtomicU64,
    args: Args,
}

/// A URL that was fetched.
struct Done {
    url: Url,
    report: Report,
    failure: Option<Failure>,
    /// With `--page`, the text if it may name objects.
    text: Option<Text>,
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
        if let NamedBy::Argument(number) = by {
            if self.args.is_shown(number) {
                return if self.args.json { Output::Nothing } else { Output::Standard };
            }
            if let Some(file) = self.args.output.get(number) {
                return Output::File { path: file.clone(), existing: Existing::Opened };
            }
        }
        let existing = match by {
            NamedBy::Page if self.args.force => Existing::Replaced,
            NamedBy::Page => Existing::Kept,
            NamedBy::Argument(_) => Existing::Opened,
        };
        let directory = self.args.directory.as_deref().unwrap_or(Path::new(""));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.file(directory, url, existing)
    }
}

/// What has named a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    /// The argument with this number.
    Argument(usize),
    /// A page that was fetched.
    Page,
}

/// Fetches URLs at the same time, and returns the results in their order.
async fn fetch_together(work: &Arc<Work>, urls: Vec<(Url, Search, NamedBy)>) -> Vec<Done> {
    let tasks = urls
        .into_iter()
        .map(|(url, search, by)| {
            let work = Arc::clone(work);
            let output = work.output(&url, by);
            tokio::spawn(async move {
                let permit = work.permits.acquire().await;
                let args = &work.args;
                let fetch = Fetch {
                    url: &url,
                    output,
                    resume: args.resumes(),
                    retries: args.retry,
                    limits: Limits {
                        time: args.max_time,
                        stall: args.speed_time,
                        bytes: args.max_filesize.unwrap_or(u64::MAX),
                        budget: (by == NamedBy::Page).then_some(&work.page_bytes),
                        texts: &work.texts,
                    },
                    search,
                    bar: work.bar(&url),
                };
                let (report, failure, text) = fetch.run(&work.transports).await;
                drop(permit);
                Done { url, report, failure, text }
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
