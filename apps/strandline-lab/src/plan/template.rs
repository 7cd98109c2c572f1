//! Commands with variables: `strandline perf client {to} --time {seconds}`.

use std::collections::BTreeMap;

/// Variables and their values.
pub type Variables = BTreeMap<String, String>;

/// Replaces variables by their values.
///
/// # Errors
/// If a variable has no value (the error lists the existing ones), or a brace is unbalanced.
pub fn fill(text: &str, variables: &Variables) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("'{text}': unclosed {{"))?;
        let value = variables.get(name).ok_or_else(|| {
            let known: Vec<&str> = variables.keys().map(String::as_str).collect();
            format!("'{text}': no variable {{{name}}}; the variables are {{{}}}", known.join("}, {"))
        })?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    if rest.contains('}') {
        return Err(format!("'{text}': unmatched }}"));
    }
    filled.push_str(rest);
    Ok(filled)
}
