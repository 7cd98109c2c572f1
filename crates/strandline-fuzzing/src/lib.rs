//! Runs a fuzz target as a test on stable Rust: over its seeds, `fuzz/seeds/TARGET`, and over a fixed number
//! of random changes of them. The changes are the same in every run. libFuzzer searches further: see
//! `fuzz/run`.
//!
//! A target is a function of bytes that panics if a property doesn't hold.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "it is for tests, which stop at the first error")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Inputs that are made out of the seeds of a target.
const CHANGED: u32 = 2000;
/// Bytes of such an input at most.
const INPUT_MAX: usize = 8192;
/// Changes of one input at most.
const STEPS_MAX: u64 = 6;

/// Bytes that mean something in many formats.
const SPECIAL: &[u8] = b"\0\x01\x7f\x80\xff\t\r\n \"%&'()*+,-./:;<=>?@[\\]^_`{|}~09aAzZ";

/// Runs a target over its seeds and over changes of them.
///
/// # Panics
/// If the target does: the input is then in `fuzz/artifacts/TARGET`. If there is no seed, too.
pub fn smoke(target: &str, run: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "fuzz/seeds/{target} has no seeds");
    for seed in &seeds {
        check(target, run, seed);
    }
    let mut chance = Chance(target.bytes().fold(0, |hash, byte| hash << 5 ^ hash >> 59 ^ u64::from(byte)));
    for _ in 0..CHANGED {
        let mut input = chance.one_of(&seeds).cloned().unwrap_or_default();
        for _ in 0..=chance.below(STEPS_MAX) {
            change(&mut input, &seeds, &mut chance);
        }
        input.truncate(INPUT_MAX);
        check(target, run, &input);
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// In the order of their names, so that every run is the same.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = folder().join("seeds").join(target);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).filter_map(|path| fs::read(path).ok()).collect()
}

fn check(target: &str, run: fn(&[u8]), input: &[u8]) {
    if let Err(why) = catch_unwind(AssertUnwindSafe(|| run(input))) {
        let folder = folder().join("artifacts").join(target);
        let path = folder.join("smoke");
        let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input));
        let said = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
        let said = said.unwrap_or("no text");
        panic!("{target}: {said}\nthe input, \"{}\", {kept:?} {}", input.escape_ascii(), path.display());
    }
}

/// One change, as fuzzers make them.
fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    let at = chance.place(input.len());
    let len = chance.place(input.len() - at).min(chance.below(32) as usize + 1);
    match chance.below(8) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        1 => {
            if let (Some(byte), Some(special)) = (input.get_mut(at), chance.one_of(SPECIAL)) {
                *byte = *special;
            }
        }
        2 => input.insert(at, chance.one_of(SPECIAL).copied().unwrap_or_default()),
        3 => input.insert(at, chance.next() as u8),
        4 => drop(input.drain(at..at + len)),
        5 => {
            let part = input.get(at..at + len).unwrap_or_default().to_vec();
            let to = chance.place(input.len());
            input.splice(to..to, part);
        }
        6 => {
            // A number somewhere in a text becomes another one.
            let digits = |byte: &u8| byte.is_ascii_digit();
            let from = at + input.get(at..).unwrap_or_default().iter().take_while(|b| !digits(b)).count();
            let to = from + input.get(from..).unwrap_or_default().iter().take_while(|b| digits(b)).count();
            let numbers = ["0", "1", "-1", "255", "65536", "4294967295", "18446744073709551615", "1e308"];
            let number = chance.one_of(&numbers).copied().unwrap_or_default();
            input.splice(from..to, number.bytes());
        }
        _ => {
            let other = chance.one_of(seeds).cloned().unwrap_or_default();
            input.truncate(at);
            input.extend_from_slice(other.get(chance.place(other.len())..).unwrap_or_default());
        }
    }
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From 0 to `len`, both included.
    fn place(&mut self, len: usize) -> usize {
        self.below(len as u64 + 1) as usize
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let at = self.below(all.len() as u64) as usize;
        all.get(at)
    }
}

#[cfg(test)]
mod tests;
