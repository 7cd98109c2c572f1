//! The file format of a scenario: TOML, checked as a whole before anything is sent.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::template::Template;

/// Maximum number of steps of a scenario.
const STEPS_MAX: usize = 1000;
/// Headers that the player writes itself.
const OWN: [&str; 14] = [
    "via",
    "v",
    "from",
    "f",
    "to",
    "t",
    "call-id",
    "i",
    "cseq",
    "contact",
    "m",
    "content-length",
    "l",
    "max-forwards",
];
/// Further headers that are derived from earlier messages.
const ROUTES: [&str; 2] = ["route", "record-route"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default = "yes")]
    register: bool,
    #[serde(default)]
    step: Vec<FileStep>,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileStep {
    who: Who,
    send: Option<String>,
    answer: Option<u16>,
    expect: Option<Expected>,
    pause: Option<f64>,
    to: Option<String>,
    reason: Option<String>,
    headers: Vec<String>,
    content_type: Option<String>,
    body: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Expected {
    Code(u16),
    Text(String),
}

/// The party that executes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Who {
    #[default]
    Caller,
    Callee,
}

impl Who {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Callee => "callee",
        }
    }
}

/// A valid scenario.
#[derive(Debug, Clone)]
pub(in crate::sip) struct Script {
    pub(in crate::sip) name: String,
    /// Whether all phones register first.
    pub(in crate::sip) register: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) who: Who,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    /// A request, within the dialog if there is one.
    Send {
        method: String,
        to: Option<Template>,
        content: Content,
    },
    /// The answer to the last request received.
    Answer {
        code: u16,
        reason: String,
        content: Content,
    },
    Expect(Wanted),
    Pause(Duration),
}

/// The message that a step waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Method(String),
    Codes(u16, u16),
}

/// The content of a message beside the headers that every message has.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// Header lines with their line ends.
    pub(super) headers: Template,
    pub(super) body: Template,
}

/// Maximum length of a scenario file in bytes.
const BYTES_MAX: u64 = 1 << 20;

impl Script {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// If the file can't be read; otherwise describes the first error in it.
    pub(in crate::sip) fn open(path: &Path) -> Result<Self> {
        let text = strandline_output::read_text(path, BYTES_MAX)
            .with_context(|| format!("reading {}", path.display()))?;
        Self::read(&text).with_context(|| format!("scenario {}", path.display()))
    }

    pub(in crate::sip) fn read(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        if file.step.is_empty() {
            bail!("at least one [[step]] is required");
        }
        if file.step.len() > STEPS_MAX {
            bail!("{} steps: at most {STEPS_MAX} are allowed", file.step.len());
        }
        let mut steps = Vec::new();
        for (number, step) in (1..).zip(file.step) {
            steps.push(step.check().with_context(|| format!("step {number}"))?);
        }
        let script = Self { name: file.name, register: file.register, steps };
        script.check_order()?;
        Ok(script)
    }

    /// Checks that what is expected and answered can come.
    fn check_order(&self) -> Result<()> {
        let place = |who: Who| usize::from(who == Who::Callee);
        let (mut sent, mut asked) = ([false; 2], [false; 2]);
        for (number, step) in (1..).zip(&self.steps) {
            let name = step.who.name();
            match &step.what {
                What::Send { .. } if number == 1 && step.who == Who::Callee => {
                    bail!("step 1: only the caller can start");
                }
                What::Send { method, .. } if method == "ACK" && !sent.iter().any(|sent| *sent) => {
                    bail!("step {number}: no response to acknowledge yet");
                }
                What::Send { .. } => set(&mut sent, place(step.who)),
                What::Answer { .. } if !is_set(&asked, place(step.who)) => {
                    bail!("step {number}: the {name} answers a request before expecting one");
                }
                What::Expect(Wanted::Codes(..)) if !is_set(&sent, place(step.who)) => {
                    bail!("step {number}: the {name} expects a response before sending a request");
                }
                What::Expect(Wanted::Method(method)) => {
                    if !is_set(&sent, place(step.who.other())) {
                        let other = step.who.other().name();
                        bail!("step {number}: the {name} expects {method}, but the {other} has not sent one");
                    }
                    set(&mut asked, place(step.who));
                }
                _ => {}
            }
        }
        match self.steps.last().map(|step| &step.what) {
            Some(What::Expect(_)) => Ok(()),
            _ => bail!("the last step must be an expect, so that its message is known to have arrived"),
        }
    }
}

fn set(all: &mut [bool; 2], place: usize) {
    if let Some(one) = all.get_mut(place) {
        *one = true;
    }
}

fn is_set(all: &[bool; 2], place: usize) -> bool {
    all.get(place).copied().unwrap_or_default()
}

impl FileStep {
    fn check(self) -> Result<Step> {
        let kinds = [
            ("send", self.send.is_some()),
            ("answer", self.answer.is_some()),
            ("expect", self.expect.is_some()),
            ("pause", self.pause.is_some()),
        ];
        let there: Vec<&str> = kinds.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
        match there.as_slice() {
            [_] => {}
            [] => bail!("one of send, answer, expect and pause is required"),
            many => bail!("{} cannot be combined in one step", many.join(" and ")),
        }
        let writes = self.send.is_some() || self.answer.is_some();
        for (name, there) in [
            ("headers", !self.headers.is_empty()),
            ("body", self.body.is_some()),
            ("content_type", self.content_type.is_some()),
        ] {
            if there && !writes {
                bail!("{name} requires send or answer");
            }
        }
        if self.to.is_some() && self.send.is_none() {
            bail!("to requires send");
        }
        if self.reason.is_some() && self.answer.is_none() {
            bail!("reason requires answer");
        }
        let who = self.who;
        let what = if let Some(seconds) = self.pause {
            if !(0.0..=3600.0).contains(&seconds) {
                bail!("pause must be 0 to 3600 seconds, not {seconds}");
            }
            What::Pause(Duration::from_secs_f64(seconds))
        } else if let Some(expected) = &self.expect {
            What::Expect(wanted(expected)?)
        } else {
            self.message()?
        };
        Ok(Step { who, what })
    }

    fn message(self) -> Result<What> {
        let content = self.content()?;
        if let Some(code) = self.answer {
            if !(101..=699).contains(&code) {
                bail!("answer must be 101 to 699, not {code}");
            }
            let reason = self.reason.unwrap_or_else(|| "As Scripted".to_owned());
            if reason.contains(['\r', '\n']) {
                bail!("reason must be a single line");
            }
            return Ok(What::Answer { code, reason, content });
        }
        let method = self.send.unwrap_or_default();
        check_method(&method)?;
        if method == "CANCEL" {
            bail!("CANCEL cannot be sent: it belongs to the transaction of its INVITE");
        }
        let to = self.to.as_deref().map(|to| template("to", to)).transpose()?;
        Ok(What::Send { method, to, content })
    }

    fn content(&self) -> Result<Content> {
        let mut lines = String::new();
        for header in &self.headers {
            let Some((name, value)) = header.split_once(':') else {
                bail!("headers: expected \"Name: value\", not {header:?}");
            };
            let name = name.trim_end();
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) {
                bail!("headers: {name:?} is not a valid header name");
            }
            if value.contains(['\r', '\n']) {
                bail!("headers: {name} must be a single line");
            }
            let small = name.to_ascii_lowercase();
            if OWN.contains(&small.as_str()) || ROUTES.contains(&small.as_str()) {
                bail!("headers: {name} is added automatically");
            }
            if ["content-type", "c"].contains(&small.as_str()) {
                bail!("headers: use content_type to set {name}");
            }
            lines.extend([name, ": ", value.trim(), "\r\n"]);
        }
        let body = self.body.as_deref().unwrap_or_default();
        match (&self.content_type, body.is_empty()) {
            (Some(kind), false) => lines.extend(["Content-Type: ", kind.as_str(), "\r\n"]),
            (None, true) => {}
            (Some(_), true) => bail!("content_type requires body"),
            (None, false) => bail!("body requires content_type, such as \"text/plain\""),
        }
        // Bodies of SIP have CRLF line ends.
        let body = body.replace("\r\n", "\n").replace('\n', "\r\n");
        Ok(Content { headers: template("headers", &lines)?, body: template("body", &body)? })
    }
}

fn template(key: &str, text: &str) -> Result<Template> {
    Template::read(text).map_err(|wrong| anyhow::anyhow!("{key}: {wrong}"))
}

fn check_method(method: &str) -> Result<()> {
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        bail!("{method:?} is not a method: use a word in capitals, such as OPTIONS");
    }
    Ok(())
}

/// Parses an expectation: `200`, `"2xx"`, `"NOTIFY"`.
fn wanted(expected: &Expected) -> Result<Wanted> {
    let text = match expected {
        Expected::Code(code) if (101..=699).contains(code) => return Ok(Wanted::Codes(*code, *code)),
        Expected::Code(code) => bail!("expect must be 101 to 699, not {code}"),
        Expected::Text(text) => text,
    };
    if let [class @ b'1'..=b'6', b'x', b'x'] = text.as_bytes() {
        let first = u16::from(class - b'0') * 100;
        return Ok(Wanted::Codes(first, first + 99));
    }
    check_method(text).context("expect must be a code such as 200, a class such as \"2xx\", or a method")?;
    Ok(Wanted::Method(text.clone()))
}

impl Wanted {
    /// Returns whether an answer with this code is expected.
    pub(super) fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::Codes(first, last) if (*first..=*last).contains(&code))
    }

    /// Returns whether a request with this method is expected.
    pub(super) fn is_method(&self, method: &[u8]) -> bool {
        matches!(self, Self::Method(wanted) if wanted.as_bytes() == method)
    }

    /// Returns whether a provisional answer is expected.
    pub(super) fn is_provisional(&self) -> bool {
        matches!(self, Self::Codes(_, last) if *last < 200)
    }
}

#[cfg(test)]
mod tests;
