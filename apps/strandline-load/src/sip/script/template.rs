//! Texts with placeholders that are filled in for each message, such as `{user}`.

use std::net::SocketAddr;

use crate::sip::format::put;

/// The placeholders that a text may contain.
const PLACES: [(&str, Place); 8] = [
    ("user", Place::User),
    ("other", Place::Other),
    ("domain", Place::Domain),
    ("address", Place::Address),
    ("transport", Place::Transport),
    ("number", Place::Number),
    ("run", Place::Run),
    ("contact", Place::Contact),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// User of the sender, as in `u17`.
    User,
    /// The number of the other side's user.
    Other,
    Domain,
    /// Address of the sender.
    Address,
    Transport,
    /// Number of this operation among all.
    Number,
    /// Number of this load.
    Run,
    /// Contact URI of the sender.
    Contact,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(Place),
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Template(Vec<Part>);

/// The values of placeholders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) user: u32,
    pub(super) other: u32,
    pub(super) domain: &'a str,
    pub(super) address: SocketAddr,
    pub(super) transport: &'a str,
    pub(super) uri_parameter: &'a str,
    pub(super) number: u64,
    pub(super) run: u64,
}

impl Template {
    /// Parses a text. `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// Describes a placeholder that is unknown or not closed.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = after.strip_prefix("{{").or_else(|| after.strip_prefix("}}")) {
                plain.push_str(rest.get(at..=at).unwrap_or_default());
                rest = after;
                continue;
            }
            let inside = after.strip_prefix('{').ok_or("unmatched }: write }} for a literal bracket")?;
            let (name, after) = inside.split_once('}').ok_or("unclosed {: write {{ for a literal bracket")?;
            let Some((_, place)) = PLACES.iter().find(|(known, _)| *known == name) else {
                let known: Vec<String> = PLACES.iter().map(|(known, _)| format!("{{{known}}}")).collect();
                return Err(format!("unknown placeholder {{{name}}}: use {}", known.join(", ")));
            };
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Place(*place));
            rest = after;
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Self(parts))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|part| *part == Part::Text(String::new()))
    }

    /// Appends the text with all placeholders filled in.
    pub(super) fn write(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => put!(out, text.as_str()),
                Part::Place(Place::User) => put!(out, "u", values.user),
                Part::Place(Place::Other) => put!(out, "u", values.other),
                Part::Place(Place::Domain) => put!(out, values.domain),
                Part::Place(Place::Address) => put!(out, values.address),
                Part::Place(Place::Transport) => put!(out, values.transport),
                Part::Place(Place::Number) => put!(out, values.number),
                Part::Place(Place::Run) => put!(out, values.run),
                Part::Place(Place::Contact) => {
                    put!(out, "sip:u", values.user, "@", values.address, values.uri_parameter);
                }
            }
        }
    }
}
