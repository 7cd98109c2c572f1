//! Parsing and formatting of quantities: `30ms`, `100mbit`, `256k`, `1%`.

use core::time::Duration;

/// Splits `30ms` into 30 and `ms`.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    Some((number, unit.trim()))
}

/// Parses a time: `30ms`, `1.5s`, `250us`, `2min`.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time such as 30ms, 250us, 1.5s or 2min");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor_s = match unit.to_ascii_lowercase().as_str() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        "" if number == 0.0 => 1.0,
        _ => return Err(wrong()),
    };
    // Rounded to the nanosecond, so that 0.1 s is not 99,999,999 ns.
    let ns = (number * factor_s * 1e9).round();
    if ns > 86_400e9 * 365.0 {
        return Err(format!("'{text}' is longer than a year"));
    }
    Ok(Duration::from_nanos(ns as u64))
}

/// Parses a rate in bits a second: `100mbit`, `1gbit`, `512kbit`, `9600bit`; `unlimited` is 0.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn rate(text: &str) -> Result<u64, String> {
    if matches!(text, "unlimited" | "none") {
        return Ok(0);
    }
    let wrong = || format!("'{text}' is not a rate such as 100mbit, 1gbit, 512kbit or unlimited");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix("/s").unwrap_or(&unit);
    let factor = match unit {
        "bit" | "b" => 1.0,
        "kbit" | "k" => 1e3,
        "mbit" | "m" => 1e6,
        "gbit" | "g" => 1e9,
        _ => return Err(wrong()),
    };
    let bps = (number * factor).round();
    if !(1.0..=1e12).contains(&bps) {
        return Err(format!("'{text}': a rate must be 1bit to 1000gbit, or unlimited"));
    }
    Ok(bps as u64)
}

/// Parses a number of bytes: `1500`, `256k` (256,000), `256ki` (262,144), `1m`, `1mi`.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn size(text: &str) -> Result<usize, String> {
    let wrong = || format!("'{text}' is not a size in bytes such as 1500, 256k (256,000), 256ki or 1m");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "ki" => 1024.0,
        "m" => 1e6,
        "mi" => 1024.0 * 1024.0,
        "g" => 1e9,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = (number * factor).round();
    if bytes > 1e12 {
        return Err(format!("'{text}': the maximum is 1000g"));
    }
    Ok(bytes as usize)
}

/// Parses a probability: `1%`, `0.05%`. Without the percent sign only 0 is valid, because `1` could mean 1 % or
/// always.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn probability(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a probability such as 1% or 0.05%");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let probability = match unit {
        "%" => number / 100.0,
        "" if number == 0.0 => 0.0,
        "" => {
            let share = if number > 1.0 {
                String::new()
            } else {
                format!(" or, for that share, {}%", number * 100.0)
            };
            return Err(format!("'{text}' lacks a percent sign: use {text}%{share}"));
        }
        _ => return Err(wrong()),
    };
    if probability > 1.0 {
        return Err(format!("'{text}': a probability must be 0% to 100%"));
    }
    Ok(probability)
}

/// Parses a number of packets, at least `min`.
///
/// # Errors
/// If the text is invalid; the error describes the expected form.
pub fn packets(text: &str, min: f64) -> Result<f64, String> {
    let number: f64 = text.trim().parse().map_err(|_| format!("'{text}' is not a number of packets"))?;
    if !number.is_finite() || number < min {
        return Err(format!("'{text}': must be at least {min} packets"));
    }
    Ok(number)
}

/// Formats nanoseconds in a readable unit: `0`, `31 us`, `1.25 ms`, `30 s`.
#[must_use]
pub fn show_ns(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", short(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", short(ns as f64 / 1e6)),
        _ => format!("{} s", short(ns as f64 / 1e9)),
    }
}

/// Formats bits a second in a readable unit.
#[must_use]
pub fn show_rate(bps: f64) -> String {
    match bps {
        bps if bps >= 1e9 => format!("{} Gbit/s", short(bps / 1e9)),
        bps if bps >= 1e6 => format!("{} Mbit/s", short(bps / 1e6)),
        bps if bps >= 1e3 => format!("{} kbit/s", short(bps / 1e3)),
        bps => format!("{} bit/s", short(bps)),
    }
}

/// Formats bytes in a readable unit.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    match bytes as f64 {
        count if count >= 1e9 => format!("{} GB", short(count / 1e9)),
        count if count >= 1e6 => format!("{} MB", short(count / 1e6)),
        count if count >= 1e4 => format!("{} kB", short(count / 1e3)),
        count => format!("{count} B"),
    }
}

/// Formats three significant digits, without trailing zeros of a fraction.
fn short(number: f64) -> String {
    let decimals = match number {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{number:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
