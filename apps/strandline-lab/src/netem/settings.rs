//! Settings of a link as text: `delay=30ms,rate=100mbit,loss=1%`.

use core::time::Duration;
use std::str::FromStr;

use strandline_netem::{Change, LinkConfig, Loss, Reordering};

use super::units;

/// Limit of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Queue {
    /// Limit in bytes.
    Bytes(usize),
    /// Limit as the time that the rate takes to send the queue.
    Time(Duration),
}

/// Settings of a link; only those that are given. Later settings replace earlier ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// One-way delay.
    pub delay: Option<Duration>,
    /// Random addition to the delay, from zero to this; packets stay in order.
    pub jitter: Option<Duration>,
    /// Rate in bits a second; 0 means unlimited.
    pub rate_bps: Option<u64>,
    /// Limit of the queue.
    pub queue: Option<Queue>,
    /// The loss model.
    pub loss: Option<Loss>,
    /// Reordering of packets.
    pub reordering: Option<Reordering>,
    /// Probability of duplication.
    pub duplication: Option<f64>,
    /// Probability of flipped bits.
    pub corruption: Option<f64>,
    /// Queue length above which ECN-capable packets are marked.
    pub mark: Option<Queue>,
    /// Longest packet, bytes.
    pub size_max: Option<usize>,
    /// Whether the link is cut.
    pub cut: Option<bool>,
}

/// All keys of the text form, for messages and help.
pub const KEYS: &str = "delay=30ms, rtt=60ms, jitter=2ms, rate=100mbit, queue=256k (or queue=50ms), mark=30k, loss=1%, \
loss-every=10, burst-loss=1%/4, gilbert=1%/25%/100%/0%, reorder=1%/5ms, duplicate=0.1%, corrupt=0.1%, size-max=1400, \
cut, heal";

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        let mut empty = true;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            settings.read(part)?;
            empty = false;
        }
        if empty {
            return Err(format!("no setting given: use {KEYS}"));
        }
        Ok(settings)
    }
}

impl Settings {
    fn read(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (part, None),
        };
        match (key, value) {
            ("cut", None) => self.cut = Some(true),
            ("heal", None) => self.cut = Some(false),
            ("cut" | "heal", Some(_)) => return Err(format!("'{key}' takes no value")),
            (_, None) => return Err(format!("unknown setting '{part}': use {KEYS}")),
            ("delay", Some(value)) => self.delay = Some(units::time(value)?),
            ("rtt", Some(value)) => self.delay = Some(units::time(value)? / 2),
            ("jitter", Some(value)) => self.jitter = Some(units::time(value)?),
            ("rate", Some(value)) => self.rate_bps = Some(units::rate(value)?),
            ("queue", Some(value)) => self.queue = Some(queue(value)?),
            ("mark", Some(value)) => self.mark = Some(queue(value)?),
            ("loss", Some(value)) => self.loss = Some(random_loss(value)?),
            ("loss-every", Some(value)) => self.loss = Some(regular_loss(value)?),
            ("burst-loss", Some(value)) => self.loss = Some(burst_loss(value)?),
            ("gilbert", Some(value)) => self.loss = Some(gilbert_elliott(value)?),
            ("reorder", Some(value)) => self.reordering = Some(reordering(value)?),
            ("duplicate", Some(value)) => self.duplication = Some(units::probability(value)?),
            ("corrupt", Some(value)) => self.corruption = Some(units::probability(value)?),
            ("size-max", Some(value)) => self.size_max = Some(units::size(value)?),
            (_, Some(_)) => return Err(format!("unknown setting '{key}': use {KEYS}")),
        }
        Ok(())
    }

    /// Returns these settings overridden by those of `other`.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            delay: other.delay.or(self.delay),
            jitter: other.jitter.or(self.jitter),
            rate_bps: other.rate_bps.or(self.rate_bps),
            queue: other.queue.or(self.queue),
            loss: other.loss.or(self.loss),
            reordering: other.reordering.or(self.reordering),
            duplication: other.duplication.or(self.duplication),
            corruption: other.corruption.or(self.corruption),
            mark: other.mark.or(self.mark),
            size_max: other.size_max.or(self.size_max),
            cut: other.cut.or(self.cut),
        }
    }

    /// Returns the changes that apply these settings to a link whose configuration is `config`.
    #[must_use]
    pub fn changes(&self, config: &LinkConfig) -> Vec<Change> {
        let rate_bps = self.rate_bps.unwrap_or(config.rate_bps);
        let bytes = |queue| match queue {
            Queue::Bytes(bytes) => bytes,
            Queue::Time(_) if rate_bps == 0 => usize::MAX,
            Queue::Time(time) => (time.as_secs_f64() * rate_bps as f64 / 8.0).round() as usize,
        };
        let cut = self.cut.map(|cut| if cut { Change::Cut } else { Change::Heal });
        let all = [
            self.delay.map(Change::Delay),
            self.jitter.map(Change::Jitter),
            self.rate_bps.map(Change::Rate),
            self.queue.map(bytes).map(Change::Queue),
            self.mark.map(bytes).map(Change::Mark),
            self.loss.map(Change::Loss),
            self.reordering.map(Change::Reordering),
            self.duplication.map(Change::Duplication),
            self.corruption.map(Change::Corruption),
            self.size_max.map(Change::SizeMax),
            cut,
        ];
        all.into_iter().flatten().collect()
    }
}

/// Parses a queue limit: `256k` (bytes) or `50ms` (time).
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn queue(text: &str) -> Result<Queue, String> {
    if text == "unlimited" {
        return Ok(Queue::Bytes(usize::MAX));
    }
    if let Ok(bytes) = units::size(text) {
        return Ok(Queue::Bytes(bytes));
    }
    units::time(text).map(Queue::Time).map_err(|_| {
        format!(
            "'{text}' is not a queue limit: use bytes (256k), a time at the link's rate (50ms) or unlimited"
        )
    })
}

/// Parses a random loss: `1%`, `1/100`, or `none`.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn random_loss(text: &str) -> Result<Loss, String> {
    if text == "none" {
        return Ok(Loss::None);
    }
    if let Some((part, whole)) = text.split_once('/') {
        let [part, whole] = [part, whole].map(|number| number.parse::<u32>().ok());
        let fit = part.zip(whole).filter(|(part, whole)| part <= whole && *whole > 0);
        let (part, whole) = fit.ok_or_else(|| format!("'{text}' is not a probability: use 1/100 or 1%"))?;
        return Ok(Loss::Random(f64::from(part) / f64::from(whole)));
    }
    Ok(Loss::Random(units::probability(text)?))
}

/// Parses N for the loss of every N-th packet.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn regular_loss(text: &str) -> Result<Loss, String> {
    match text.parse::<u32>() {
        Ok(n) if n > 0 => Ok(Loss::EveryNth(n)),
        _ => Err(format!("'{text}': give N to lose every N-th packet, such as 10")),
    }
}

/// Parses a burst loss: `1%/4` is 1 % of all packets, in bursts of 4 on average.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn burst_loss(text: &str) -> Result<Loss, String> {
    let wrong = || format!("'{text}': give the loss rate and the mean burst length in packets, such as 1%/4");
    let (share, length) = text.split_once('/').ok_or_else(wrong)?;
    let (share, bad) = (units::probability(share)?, units::packets(length, 1.0)?);
    if share <= 0.0 {
        return Ok(Loss::None);
    }
    let good = bad * (1.0 - share) / share;
    if good < 1.0 {
        return Err(format!(
            "'{text}': with bursts of {bad} packets the loss rate is at most {:.0}%",
            100.0 * bad / (bad + 1.0)
        ));
    }
    Ok(Loss::bursts(good, bad))
}

/// Parses a Gilbert-Elliott loss model `P/R/H/K`: the probabilities of entering the bad state after a packet,
/// of leaving it, of loss in the bad state and of loss in the good state.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn gilbert_elliott(text: &str) -> Result<Loss, String> {
    let parts: Vec<f64> = text.split('/').map(units::probability).collect::<Result<_, _>>()?;
    let (to_bad, to_good, bad_loss, good_loss) = match *parts.as_slice() {
        [p, r] => (p, r, 1.0, 0.0),
        [p, r, bad_loss] => (p, r, bad_loss, 0.0),
        [p, r, bad_loss, good_loss] => (p, r, bad_loss, good_loss),
        _ => {
            return Err(format!(
                "'{text}': expected to-bad/to-good[/loss-in-bad[/loss-in-good]], such as 1%/25%"
            ));
        }
    };
    if to_bad <= 0.0 || to_good <= 0.0 {
        return Err(format!("'{text}': the first two probabilities must be above 0"));
    }
    let (good_packets_mean, bad_packets_mean) = (1.0 / to_bad, 1.0 / to_good);
    Ok(Loss::Bursts { good_packets_mean, bad_packets_mean, good_loss, bad_loss })
}

/// Parses a reordering: `1%/5ms` holds back 1 % of the packets by up to 5 ms.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn reordering(text: &str) -> Result<Reordering, String> {
    let (share, extra) = text.split_once('/').ok_or_else(|| {
        format!("'{text}': give the share of delayed packets and the maximum delay, such as 1%/5ms")
    })?;
    Ok(Reordering { probability: units::probability(share)?, extra_delay_max: units::time(extra)? })
}

#[cfg(test)]
mod tests;
