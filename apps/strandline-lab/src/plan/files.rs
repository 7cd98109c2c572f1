//! Locations of plans: experiments/PAPER/NAME.toml, with experiments/PAPER/paper.toml about the paper itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use strandline_output::read_text;

use super::Plan;

/// Files beside plans that are not plans.
const OTHERS: [&str; 2] = ["paper.toml", "published.toml"];

/// A paper whose experiments are reproduced.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paper {
    /// Its title.
    pub title: String,
    /// The authors.
    pub authors: String,
    /// Year of publication.
    pub year: u16,
    /// Where it was published.
    pub venue: String,
    /// The setup of the paper's measurements.
    pub setup: String,
    /// Not a paper: all claims are this project's own.
    #[serde(default)]
    pub own: bool,
}

/// Location of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Name of its folder.
    pub paper: String,
    /// Name of its file without `.toml`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// Returns the plans in a folder, ordered by paper and name: those that the words select, or all if there are
/// no words. A word is a paper, a plan (`jani-kant-2005/figure5`), or a plan's file.
///
/// # Errors
/// If the folder doesn't exist, or a word selects nothing; the error lists the choices.
pub fn find(experiments: &Path, words: &[String]) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    let papers = fs::read_dir(experiments).with_context(|| {
        format!(
            "no directory {} with plans: run this in the repository, or set --experiments",
            experiments.display()
        )
    })?;
    for paper in papers {
        let folder = paper?.path();
        if folder.is_dir() {
            all.extend(plans_in(&folder)?);
        }
    }
    all.sort_by_cached_key(|found| (found.paper.clone(), natural(&found.name)));
    if words.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for word in words {
        let before = chosen.len();
        if word.ends_with(".toml") {
            chosen.extend(found(Path::new(word)));
        }
        let matches =
            |found: &&Found| *word == found.paper || *word == format!("{}/{}", found.paper, found.name);
        chosen.extend(all.iter().filter(matches).cloned());
        if chosen.len() == before {
            bail!("no paper or plan '{word}' in {}: see strandline lab list", experiments.display());
        }
    }
    Ok(chosen)
}

fn plans_in(folder: &Path) -> Result<Vec<Found>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut plans = Vec::new();
    for entry in entries {
        plans.extend(found(&entry?.path()));
    }
    Ok(plans)
}

fn found(path: &Path) -> Option<Found> {
    let file = path.file_name()?.to_str()?;
    let name = file.strip_suffix(".toml").filter(|_| !OTHERS.contains(&file))?.to_owned();
    let paper = path.parent()?.file_name()?.to_str()?.to_owned();
    Some(Found { paper, name, path: path.to_owned() })
}

/// Returns a key that sorts names naturally: `figure10` after `figure9`.
fn natural(name: &str) -> (String, u64, String) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (letters, rest) = name.split_at_checked(start).unwrap_or((name, ""));
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    (letters.to_owned(), digits.parse().unwrap_or(0), rest.to_owned())
}

/// Longest file of a plan or paper, bytes.
const BYTES_MAX: u64 = 4 << 20;

/// Loads a plan and checks it.
///
/// # Errors
/// The file, the location in it, the mistake and what is expected.
pub fn load(found: &Found) -> Result<Plan> {
    let shown = found.path.display();
    let text = read_text(&found.path, BYTES_MAX).with_context(|| format!("{shown}"))?;
    let mut plan: Plan = toml::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    plan.paper.clone_from(&found.paper);
    plan.name.clone_from(&found.name);
    plan.check().map_err(|wrong| anyhow!("{shown}: {wrong}"))?;
    Ok(plan)
}

/// Loads the description of a plan's paper.
///
/// # Errors
/// If the file is missing or invalid.
pub fn paper(found: &Found) -> Result<Paper> {
    let path = found.path.with_file_name("paper.toml");
    let shown = path.display();
    let text = read_text(&path, BYTES_MAX)
        .with_context(|| format!("{shown}: the keys title, authors, year, venue and setup are required"))?;
    toml::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))
}

/// Returns a hash of a plan's file, which identifies the version that was measured.
///
/// # Errors
/// If the file can't be read.
pub fn hash(path: &Path) -> Result<String> {
    let text = read_text(path, BYTES_MAX).with_context(|| format!("{}", path.display()))?;
    Ok(super::points::short_hash(&text))
}
