use super::*;

#[test]
fn a_device_without_end_is_an_error() {
    let error = read_file("/dev/zero", 2 << 20).unwrap_err();
    assert_eq!(error.to_string(), "the file has more than 2 MiB: is it the right one?");
    assert!(read_text("/dev/zero", 4096).unwrap_err().to_string().contains("4 KiB"));
}

#[test]
fn a_file_up_to_the_limit_is_read() {
    let path = std::env::temp_dir().join(format!("strandline-input-{}", std::process::id()));
    std::fs::write(&path, "four").unwrap();
    assert_eq!(read_text(&path, 4).unwrap(), "four");
    assert!(read_text(&path, 3).is_err());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read_text(&path, 4).unwrap_err().kind(), ErrorKind::NotFound);
}
