//! Where plans are: experiments/PAPER/NAME.toml, with experiments/PAPER/paper.toml about the paper itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use strandline_output::read_text;

use super::Plan;

/// Files beside plans that are none.
const OTHERS: [&str; 2] = ["paper.toml", "published.toml"];

/// A paper whose experiments are run again.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paper {
    /// Its title.
    pub title: String,
    /// Who wrote it.
    pub authors: String,
    /// When it appeared.
    pub year: u16,
    /// Where it appeared.
    pub venue: String,
    /// On what they measured.
    pub setup: String,
    /// No paper: all claims are our own.
    #[serde(default)]
    pub own: bool,
}

/// A plan's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its folder's name.
    pub paper: String,
    /// Its file's name without `.toml`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// The plans below a folder, by paper and name: those that the words choose, or all without words. A word is a paper, a
/// plan (`jani-kant-2005/figure5`), or a plan's file.
///
/// # Errors
/// There is no such folder, or a word that chooses nothing, with what there is.
pub fn find(experiments: &Path, words: &[String]) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    let papers = fs::read_dir(experiments).with_context(|| {
        format!(
            "there is no folder {} with plans: run it in the repository, or say where with --experiments",
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
            bail!("there is no paper or plan '{word}' in {}: see strandline lab list", experiments.display());
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

/// `figure10` after `figure9`: letters as they are, numbers by their size.
fn natural(name: &str) -> (String, u64, String) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (letters, rest) = name.split_at_checked(start).unwrap_or((name, ""));
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    (letters.to_owned(), digits.parse().unwrap_or(0), rest.to_owned())
}

/// The longest file of a plan, or about a paper.
const BYTES_MAX: u64 = 4 << 20;

/// Reads a plan and checks it.
///
/// # Errors
/// The file, the place in it, what is wrong and what would be right.
pub fn load(found: &Found) -> Result<Plan> {
    let shown = found.path.display();
    let text = read_text(&found.path, BYTES_MAX).with_context(|| format!("{shown}"))?;
    let mut plan: Plan = toml::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    plan.paper.clone_from(&found.paper);
    plan.name.clone_from(&found.name);
    plan.check().map_err(|wrong| anyhow!("{shown}: {wrong}"))?;
    Ok(plan)
}

/// Reads what is known about the paper of a plan.
///
/// # Errors
/// The file is missing or can't be read, and why.
pub fn paper(found: &Found) -> Result<Paper> {
    let path = found.path.with_file_name("paper.toml");
    let shown = path.display();
    let text = read_text(&path, BYTES_MAX).with_context(|| {
        format!("{shown}: it has to say title, authors, year, venue and setup of the paper")
    })?;
    toml::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))
}

/// A hash of a plan's file, to tell with which version something was measured.
///
/// # Errors
/// It can't be read.
pub fn hash(path: &Path) -> Result<String> {
    let text = read_text(path, BYTES_MAX).with_context(|| format!("{}", path.display()))?;
    Ok(super::points::short_hash(&text))
}
