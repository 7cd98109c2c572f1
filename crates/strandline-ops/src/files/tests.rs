#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use super::*;

#[test]
fn files_of_another_process_are_complete() {
    let path = std::env::temp_dir().join(format!("strandline-files-{}", std::process::id()));
    let other = path.with_extension("other");
    std::fs::write(&path, "first").unwrap();
    std::fs::write(&other, [0xff, 0xfe]).unwrap();
    let mut read = Files::of_disk();
    assert_eq!(read.text(&path).unwrap(), "first");
    assert!(read.text(&other).unwrap_err().to_string().ends_with("the file is not valid UTF-8"));
    std::fs::write(&path, "second").unwrap();
    assert_eq!(read.text(&path).unwrap(), "first", "it is read once");
    let bytes = read.to_bytes().unwrap();
    let mut given = Files::from_bytes(&bytes).unwrap();
    assert_eq!(given.text(&path).unwrap(), "first");
    assert_eq!(given.pem(&other).unwrap().bytes, [0xff, 0xfe]);
    let absent = path.with_extension("absent");
    std::fs::write(&absent, "it is on the disk").unwrap();
    assert_eq!(given.text(&absent).unwrap_err().path, absent);
    assert_eq!(Files::of_disk().text(&path).unwrap(), "second");
    // The content is not shown.
    assert!(!format!("{given:?}").contains("first"));
    for len in 1..bytes.len() {
        let cut = Files::from_bytes(&bytes[..len]);
        assert!(cut.is_err() || cut.unwrap().all.len() == 1, "{len} bytes");
    }
    for path in [&path, &other, &absent] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_configuration_without_end_is_an_error() {
    let error = Files::of_disk().text(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("/dev/zero") && error.contains("more than 256 MiB"), "{error}");
}
