#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn the_plan_of_the_repository_is_sound() {
    let plan = Plan::parse(include_str!("../../../rows.toml")).unwrap();
    assert!(plan.rows.len() > 5);
    for row in &plan.rows {
        for name in &row.subjects {
            let subject = plan.subject(name).unwrap();
            for command in [Some(&subject.sender), subject.receiver.as_ref(), subject.beside.as_ref()] {
                let Some(program) = command.and_then(|command| command.split_whitespace().next()) else {
                    continue;
                };
                assert!(crate::programs::Program::named(program).is_ok(), "{program}");
            }
        }
    }
}

#[test]
fn mistakes_are_found() {
    let subject = "[subject.a]\ntitle = \"a\"\nsender = \"strandline --to {to} --size {size}\"\n";
    let row = "[[row]]\nname = \"r\"\nwhat = \"r\"\nsubjects = [\"a\"]\n";
    let size = "values = { size = 1 }\n";
    assert!(Plan::parse(&format!("{subject}{row}{size}")).is_ok());
    assert!(Plan::parse(&format!("{subject}{row}")).is_err(), "no value for {{size}}");
    assert!(Plan::parse(&format!("{subject}{row}{size}{row}{size}")).is_err(), "a name twice");
    let checked = |check: &str| Plan::parse(&format!("{subject}{row}{size}checks = [{{ {check} }}]\n"));
    assert!(checked("metric = \"goodput\", must = 1.0").is_ok());
    assert!(checked("metric = \"goodput\"").is_err(), "no bound");
    let own = |theirs: &str| checked(&format!("metric = \"setup\", against-metric = {theirs:?}, must = 1.1"));
    assert!(own("setup-of-one").is_ok());
    assert!(own("setup").is_err(), "nothing to compare");
    assert!(own("goodput").is_err(), "less is better of one, more of the other");
    let points = subject.replace("title", "report = \"pointers\"\ntitle");
    assert!(Plan::parse(&format!("{points}{row}{size}")).is_err(), "pointers to nothing");
    assert!(checked("metric = \"goodput\", must = 1.0, against = [\"b\"]").is_err(), "not in the row");
    assert!(checked("metric = \"speed\", must = 1.0").is_err(), "no such metric");
    let or = |against: &str| {
        checked(&format!(
            "metric = \"goodput\", against = [\"a\"], must = 2.0, or = {{ against = {against}, must = 0.95 }}"
        ))
    };
    assert!(or("[\"a\"]").is_ok());
    assert!(or("[\"b\"]").is_err() && or("[]").is_err(), "not in the row, or none");
    let aim = "metric = \"goodput\", against = [\"a\"], aim = 2.0, or = { against = [\"a\"], must = 0.95 }";
    assert!(checked(aim).is_err(), "instead of nothing");
}

#[test]
fn commands_are_filled_in() {
    let values = BTreeMap::from([("size".to_owned(), Value::from(64))]);
    let words = fill("x --size {size} --to {to}", &values, &[("to", "192.0.2.1")]).unwrap();
    assert_eq!(words, ["x", "--size", "64", "--to", "192.0.2.1"]);
    let words = fill("{to}:{size}", &values, &[("to", "192.0.2.1")]).unwrap();
    assert_eq!(words, ["192.0.2.1:64"]);
    assert!(fill("{other}", &values, &[]).is_err());
    assert!(fill("{size", &values, &[]).is_err());
}

#[test]
fn check_concerns_the_rows_first_subject() {
    let root = crate::programs::root().unwrap();
    let plan = Plan::parse(&std::fs::read_to_string(root.join("bench/rows.toml")).unwrap()).unwrap();
    for row in &plan.rows {
        assert!(!row.checks.is_empty(), "{}", row.name);
        for check in &row.checks {
            let of = check.of.as_ref().unwrap();
            assert!(!check.against.contains(of), "{}: {of} against itself", row.name);
        }
    }
    let streams = plan.rows.iter().find(|row| row.name == "streams").unwrap();
    assert_eq!(streams.checks[0].of.as_deref(), Some("strandline-2-streams"));
}
