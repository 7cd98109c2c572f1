use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

fn args(more: &[&str]) -> Result<Args, clap::Error> {
    Program::try_parse_from(["get"].iter().chain(more)).map(|program| program.args)
}

#[test]
fn times_have_fractions_and_zero_is_none() {
    let time = |text| args(&["-m", text, "http://a/"]).map(|args| args.max_time);
    assert_eq!(time("0.5").unwrap(), Duration::from_millis(500));
    assert_eq!(time("7").unwrap(), Duration::from_secs(7));
    assert_eq!(time("0").unwrap(), Duration::from_secs_f64(SECONDS_MAX));
    for wrong in ["-1", "x", "", "nan", "inf", "1e300"] {
        assert_eq!(time(wrong).unwrap_err().exit_code(), 2, "{wrong}");
    }
}

#[test]
fn options_that_contradict_one_another_are_flaws() {
    let cases: [(&[&str], Option<&str>); 19] = [
        (&["-o", "f", "a", "b", "c"], Some("-d DIR")),
        (&["-o", "-", "a", "b"], Some("-d DIR")),
        (&["-o", "-", "-o", "-", "a", "b"], Some("-d DIR")),
        (&["-o", "f", "-o", "f", "a", "b"], Some("-o names f")),
        (&["-o", "/dev/null", "-o", "/dev/null", "a", "b"], None),
        // As for curl, the second one goes to standard output.
        (&["-o", "f", "a", "b"], None),
        (&["-o", "f", "-o", "-", "a", "b"], None),
        (&["-o", "f", "-o", "g", "a", "b"], None),
        (&["-o", "f", "-o", "g", "a"], None),
        (&["-o", "-", "--json", "a"], Some("--json")),
        (&["-C", "-", "a"], Some("-o")),
        (&["-c", "a"], Some("-o")),
        (&["-C-", "-o", "-", "a"], Some("-o")),
        (&["-C", "-", "-o", "f", "a", "b"], Some("-o")),
        (&["-C", "-", "-o", "f", "a"], None),
        (&["-C", "-", "-d", "d", "a"], None),
        (&["--continue", "a", "b"], None),
        (&["-C", "-", "--page", "a"], None),
        (&["-o", "-", "a"], None),
    ];
    for (more, flaw) in cases {
        let found = args(more).unwrap().flaw();
        assert_eq!(found.is_some(), flaw.is_some(), "{more:?}");
        assert!(found.unwrap_or_default().contains(flaw.unwrap_or_default()), "{more:?}");
    }
}
