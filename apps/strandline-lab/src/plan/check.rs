//! Checks of a plan beyond its format: unknown names, commands with unset variables, invalid expressions.

use std::collections::BTreeSet;

use super::expression::Expression;
use super::{Drawing, DrawingKind, Mode, Plan, Published, PublishedValue, Series};
use crate::network::{self, NetworkKind};

type Checked = Result<(), String>;

impl Plan {
    /// # Errors
    /// The key, what is wrong with it, and what would be right.
    pub(crate) fn check(&self) -> Checked {
        ensure(!self.series.is_empty(), || "at least one [[series]] is required".to_owned())?;
        ensure(!self.measures.is_empty(), || "at least one [[measure]] is required".to_owned())?;
        let seconds = [Some(self.runs.seconds), self.short.seconds].into_iter().flatten();
        for seconds in seconds {
            ensure((0.01..=3600.0).contains(&seconds), || {
                format!("seconds = {seconds} must be 0.01 to 3600")
            })?;
        }
        let repetitions = [Some(self.runs.repetitions), self.short.repetitions].into_iter().flatten();
        for repetitions in repetitions {
            ensure((1..=1000).contains(&repetitions), || {
                format!("repetitions = {repetitions} must be 1 to 1000")
            })?;
        }
        for (key, share) in [("failed-max", self.runs.failed_max), ("rate-min", self.runs.rate_min)] {
            ensure((0.0..=1.0).contains(&share), || format!("{key} = {share} must be 0 to 1"))?;
        }
        self.check_names()?;
        self.check_sweep()?;
        self.check_short()?;
        for series in &self.series {
            self.check_series(series).map_err(|wrong| format!("series '{}': {wrong}", series.name))?;
        }
        self.check_drawing(&self.drawing)?;
        for published in &self.published {
            self.check_published(published)
                .map_err(|wrong| format!("published '{}': {wrong}", published.name))?;
        }
        for (key, text) in [("shows", &self.shows), ("differs", &self.differs)] {
            for part in text.split('{').skip(1) {
                let name = part.split('}').next().unwrap_or_default();
                self.check_name(name).map_err(|wrong| format!("{key}: {wrong}"))?;
            }
        }
        for claim in &self.claims {
            ensure(claim.min.is_some() || claim.max.is_some(), || {
                format!("claim '{}': min or max is required", claim.says)
            })?;
            self.check_claim(&claim.value)
                .map_err(|wrong| format!("claim '{}': value: {wrong}", claim.says))?;
        }
        self.check_runs()
    }

    fn check_names(&self) -> Checked {
        let names = self.series.iter().map(|series| &series.name);
        let names = names.chain(self.published.iter().map(|published| &published.name));
        unique("series or published", names)?;
        unique("measure", self.measures.iter().map(|measure| &measure.name))
    }

    fn check_sweep(&self) -> Checked {
        let Some(sweep) = &self.sweep else { return Ok(()) };
        match (&sweep.each, sweep.values.is_empty()) {
            (None, true) => return Err("sweep: values, or each = \"/pointer\", is required".to_owned()),
            (Some(_), false) => return Err("sweep: values conflicts with each".to_owned()),
            (Some(each), true) => {
                ensure(each.is_empty() || each.starts_with('/'), || {
                    format!("sweep: each = \"{each}\" is not a JSON pointer such as \"/steps\"")
                })?;
                let value = sweep
                    .value
                    .as_ref()
                    .ok_or("sweep: each requires value = \"{/pointer}\", a pointer into its elements")?;
                self.check_measure(value).map_err(|wrong| format!("sweep: value: {wrong}"))?;
            }
            (None, false) => {}
        }
        let count = sweep.values.len();
        let fits = |given: Option<usize>| given.is_none_or(|given| given == count);
        ensure(fits(sweep.x.as_ref().map(Vec::len)), || {
            format!("sweep: x must have {count} numbers, one for each value")
        })?;
        ensure(fits(sweep.labels.as_ref().map(Vec::len)), || {
            format!("sweep: labels must have {count} strings, one for each value")
        })?;
        let numbers = sweep.x.is_some() || sweep.values.iter().all(|value| value.number().is_some());
        ensure(numbers || self.drawing.kind == DrawingKind::Bars, || {
            "sweep: values are not numbers: add their positions as x = [...], or draw bars".to_owned()
        })
    }

    fn check_short(&self) -> Checked {
        let values = self.sweep.as_ref().map(|sweep| sweep.values.as_slice()).unwrap_or_default();
        let strange = self.short.values.iter().flatten().find(|value| !values.contains(value));
        ensure(strange.is_none(), || {
            let shown = strange.map(ToString::to_string).unwrap_or_default();
            format!("short: values: {shown} is not one of the sweep's values")
        })?;
        let strange = self.short.series.iter().flatten().find(|name| self.series(name).is_none());
        ensure(strange.is_none(), || {
            format!("short: series: no series '{}'", strange.cloned().unwrap_or_default())
        })
    }

    fn check_series(&self, series: &Series) -> Checked {
        for name in series.measures.keys().chain(&series.without) {
            ensure(self.measure(name).is_some(), || self.no_measure(name))?;
        }
        for measure in &self.measures {
            if let Some(expression) = self.expression(series, measure) {
                self.check_measure(expression)
                    .map_err(|wrong| format!("measure '{}': {wrong}", measure.name))?;
            }
        }
        let all = self.sweep.as_ref().map(|sweep| sweep.values.as_slice()).unwrap_or_default();
        let strange = series.values.iter().flatten().find(|value| !all.contains(value));
        ensure(strange.is_none(), || {
            let shown = strange.map(ToString::to_string).unwrap_or_default();
            format!("values: {shown} is not one of the sweep's values")
        })?;
        let network = self.network.with(&series.network);
        let simulated = network.kind == NetworkKind::Simulator && !network.link.is_empty();
        ensure(!simulated || series.client.contains("{link}"), || {
            "client: a simulation requires --link {link} in its command".to_owned()
        })?;
        ensure(!network.kind.is_alone() || series.server.is_none(), || {
            "server: not allowed with kind = \"none\" or \"simulator\", where only the client runs".to_owned()
        })
    }

    fn check_measure(&self, text: &str) -> Checked {
        for name in Expression::parse(text)?.names() {
            let (from, pointer) = name.split_once(':').unwrap_or(("client", name));
            let known = ["client", "server", "netem"].contains(&from) && pointer.starts_with('/');
            let variable = !name.contains('/') && !name.contains(':') && !name.is_empty();
            ensure(known || variable, || {
                format!(
                    "'{text}': {{{name}}} is unknown: use {{/pointer}} for the client's output, \
                     {{server:/pointer}}, {{netem:/pointer}}, or a {{variable}}"
                )
            })?;
        }
        Ok(())
    }

    fn no_measure(&self, name: &str) -> String {
        let names: Vec<&str> = self.measures.iter().map(|measure| measure.name.as_str()).collect();
        format!("no measure '{name}'; the measures are {}", names.join(", "))
    }

    fn check_drawing(&self, drawing: &Drawing) -> Checked {
        for name in &drawing.measures {
            ensure(self.measure(name).is_some(), || format!("draw: {}", self.no_measure(name)))?;
        }
        let strange = drawing.baseline.iter().find(|name| self.series(name).is_none());
        ensure(strange.is_none(), || {
            format!("draw: baseline: no series '{}'", strange.cloned().unwrap_or_default())
        })?;
        ensure((0.0..1.0).contains(&drawing.same), || {
            format!("draw: same = {} must be 0 to 1", drawing.same)
        })?;
        ensure(drawing.kind == DrawingKind::Bars || self.sweep.is_some(), || {
            "draw: kind = \"lines\" requires a [sweep]; without one use kind = \"bars\"".to_owned()
        })
    }

    fn check_published(&self, published: &Published) -> Checked {
        for name in &published.computed {
            ensure(published.values.contains_key(name), || format!("computed: values lack '{name}'"))?;
            ensure(published.source.is_some(), || "computed: source is required".to_owned())?;
        }
        for (name, value) in &published.values {
            ensure(self.measure(name).is_some(), || self.no_measure(name))?;
            let PublishedValue::Each(values) = value else { continue };
            ensure(self.sweep.is_some(), || format!("{name} must be a single number without a [sweep]"))?;
            for at in values.keys() {
                let number = at.parse::<f64>().is_ok();
                ensure(number || self.is_value(at), || {
                    format!("{name}: '{at}' is not one of the sweep's values")
                })?;
            }
        }
        Ok(())
    }

    /// Returns whether the sweep has a value with this text. Points from the programs' JSON are not known in
    /// advance, so any text is accepted.
    fn is_value(&self, text: &str) -> bool {
        let Some(sweep) = &self.sweep else { return false };
        sweep.each.is_some() || sweep.values.iter().any(|value| value.to_string() == text)
    }

    fn check_claim(&self, text: &str) -> Checked {
        Expression::parse(text)?.names().into_iter().try_for_each(|name| self.check_name(name))
    }

    /// Checks that a name refers to a median or a published number.
    fn check_name(&self, name: &str) -> Checked {
        let (what, at) = name.split_once('@').map_or((name, None), |(what, at)| (what, Some(at)));
        let (series, measure) = what.split_once('.').ok_or_else(|| {
            format!("'{{{name}}}': expected {{series.measure}} or {{series.measure@VALUE}} with a value of the sweep")
        })?;
        let published = self.published.iter().any(|published| published.name == series);
        ensure(published || self.series(series).is_some(), || format!("no series '{series}'"))?;
        ensure(self.measure(measure).is_some(), || self.no_measure(measure))?;
        match at {
            Some(at) => ensure(published || self.is_value(at), || {
                format!("'{{{name}}}': '{at}' is not one of the sweep's values")
            })?,
            None => ensure(self.sweep.is_none(), || {
                format!("'{{{name}}}': add a value of the sweep: {{{name}@VALUE}}")
            })?,
        }
        Ok(())
    }

    /// Fills in every command, and parses every network.
    fn check_runs(&self) -> Checked {
        for mode in [Mode::Whole, Mode::Short] {
            for run in self.runs(mode)? {
                ensure(!run.client.trim().is_empty(), || "client: the command is required".to_owned())?;
                let name = self.series.get(run.series).map(|series| series.name.as_str()).unwrap_or_default();
                network::check(&run.network, run.seed)
                    .map_err(|wrong| format!("network of series '{name}': {wrong}"))?;
            }
        }
        Ok(())
    }
}

fn ensure(good: bool, wrong: impl FnOnce() -> String) -> Checked {
    if good { Ok(()) } else { Err(wrong()) }
}

/// Checks that names are unique and can be used in claims.
fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Checked {
    let mut seen = BTreeSet::new();
    for name in names {
        let good = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        ensure(good, || format!("{what} '{name}': names consist of a-z, 0-9 and -"))?;
        ensure(seen.insert(name), || format!("{what} '{name}': the name is used twice"))?;
    }
    Ok(())
}
