//! What programs say themselves against a run: operations that failed, a rate that was not reached, a congestion control
//! that is not the plan's. Such a run has numbers, and they don't count.

use serde_json::{Map, Value};

use crate::figure::show;
use crate::plan::{Plan, Run};

/// Under this name programs tell the congestion control of a TCP connection, as iperf3 does.
const CONGESTION: &str = "sender_tcp_congestion";

/// Why a run doesn't count, by what its client printed.
#[must_use]
pub fn doubts(plan: &Plan, run: &Run, client: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let network = run.network.as_made();
    each_object(client, &mut |object| {
        found.extend(too_many_failed(object, plan.runs.failed_max));
        found.extend(too_slow(object, plan.runs.rate_min));
        // Whatever the series is about: a flow of TCP beside one of SCTP has to be the plan's as well.
        found.extend(other_congestion(object, network.tcp()));
    });
    found
}

/// `failed` beside `completed`: operations.
fn too_many_failed(object: &Map<String, Value>, failed_max: f64) -> Option<String> {
    let [failed, completed] = ["failed", "completed"].map(|key| object.get(key).and_then(Value::as_f64));
    let (failed, all) = (failed?, failed? + completed?);
    if failed <= all * failed_max {
        return None;
    }
    let error = object.get("errors").and_then(Value::as_object).and_then(|errors| errors.keys().next());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    Some(format!("{failed} of {all} operations failed{error} (failed-max = {failed_max})"))
}

/// `rate_asked` beside `rate_reached`: operations a second that are to begin whether earlier ones are done or not.
fn too_slow(object: &Map<String, Value>, rate_min: f64) -> Option<String> {
    let [asked, reached] = ["rate_asked", "rate_reached"].map(|key| object.get(key).and_then(Value::as_f64));
    let (asked, reached) = (asked?, reached?);
    let (shown_asked, shown) = (show(asked), show(reached));
    (reached < asked * rate_min)
        .then(|| format!("{shown} of {shown_asked} operations a second were reached (rate-min = {rate_min})"))
}

fn other_congestion(object: &Map<String, Value>, planned: &str) -> Option<String> {
    let used = object.get(CONGESTION)?.as_str()?;
    (used != planned).then(|| format!("TCP used {used} and not {planned}"))
}

fn each_object(value: &Value, look: &mut impl FnMut(&Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            look(object);
            object.values().for_each(|value| each_object(value, look));
        }
        Value::Array(values) => values.iter().for_each(|value| each_object(value, look)),
        _ => {}
    }
}
