use super::*;

#[test]
fn changes_are_the_same_in_every_run() {
    let seeds = [b"one 17".to_vec(), b"{\"two\": 4}".to_vec()];
    let make = || {
        let (mut chance, mut made) = (Chance(7), Vec::new());
        for _ in 0..1000 {
            let mut input = chance.one_of(&seeds).unwrap().clone();
            change(&mut input, &seeds, &mut chance);
            made.push(input);
        }
        made
    };
    let made = make();
    assert_eq!(made, make());
    assert!(made.iter().filter(|input| !seeds.contains(input)).count() > 800);
}

#[test]
fn failures_name_the_input() {
    let run = |bytes: &[u8]| assert!(bytes.len() < 3, "too long");
    check("strandline-fuzzing", run, b"ok");
    let said = catch_unwind(|| check("strandline-fuzzing", run, b"a\xffb")).unwrap_err();
    let said = said.downcast_ref::<String>().unwrap();
    assert!(said.contains("too long") && said.contains("a\\xffb"), "{said}");
    fs::remove_dir_all(folder().join("artifacts/strandline-fuzzing")).unwrap();
}
