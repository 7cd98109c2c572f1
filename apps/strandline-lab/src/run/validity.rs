//! Reasons in programs' own reports to reject a run: failed operations, a rate that was not reached, a
//! congestion control other than the plan's. Such a run has numbers but is invalid.

use serde_json::{Map, Value};

use crate::figure::show;
use crate::plan::{Plan, Run};

/// Name under which programs report the congestion control of a TCP connection, as iperf3 does.
const CONGESTION: &str = "sender_tcp_congestion";

/// Returns the reasons why a run is invalid, according to the client's report.
#[must_use]
pub fn invalidity_reasons(plan: &Plan, run: &Run, client: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let network = run.network.as_made();
    each_object(client, &mut |object| {
        found.extend(too_many_failed(object, plan.runs.failed_max));
        found.extend(too_slow(object, plan.runs.rate_min));
        // For every series: a TCP flow beside an SCTP one must use the plan's congestion control as well.
        found.extend(other_congestion(object, network.tcp()));
    });
    found
}

/// Checks `failed` and `completed`, the numbers of operations; of HTTP requests `errors_total` and `replies`.
fn too_many_failed(object: &Map<String, Value>, failed_max: f64) -> Option<String> {
    let number = |key| object.get(key).and_then(Value::as_f64);
    let pair = |failed, completed| number(failed).zip(number(completed));
    let (failed, completed) = pair("failed", "completed").or_else(|| pair("errors_total", "replies"))?;
    let all = failed + completed;
    if failed <= all * failed_max {
        return None;
    }
    let errors = object.get("errors").and_then(Value::as_object);
    let error = errors.and_then(|errors| errors.iter().find(|(_, count)| count.as_u64() != Some(0)));
    let error = error.map(|(error, _)| error).map(|error| format!(": {error}")).unwrap_or_default();
    Some(format!("{failed} of {all} operations failed{error} (failed-max = {failed_max})"))
}

/// Checks `rate_asked` and `rate_reached`, the operations a second of an open loop.
fn too_slow(object: &Map<String, Value>, rate_min: f64) -> Option<String> {
    let [asked, reached] = ["rate_asked", "rate_reached"].map(|key| object.get(key).and_then(Value::as_f64));
    let (asked, reached) = (asked?, reached?);
    let (shown_asked, shown) = (show(asked), show(reached));
    (reached < asked * rate_min)
        .then(|| format!("only {shown} of {shown_asked} operations/s were reached (rate-min = {rate_min})"))
}

fn other_congestion(object: &Map<String, Value>, planned: &str) -> Option<String> {
    let used = object.get(CONGESTION)?.as_str()?;
    (used != planned).then(|| format!("TCP used {used} instead of {planned}"))
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
