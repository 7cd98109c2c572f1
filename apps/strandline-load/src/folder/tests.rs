use super::*;

#[test]
fn folders_of_killed_processes_are_removed() {
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let purpose = format!("folder-test-{}", std::process::id());
    let of = |pid: u32| std::env::temp_dir().join(format!("strandline-{purpose}-{pid}"));
    let (left, running) = (of(ended.id()), of(1));
    std::fs::create_dir_all(left.join("inside")).unwrap();
    std::fs::create_dir_all(&running).unwrap();
    let own = Folder::new(&purpose).unwrap();
    assert!(own.path().is_dir() && running.is_dir() && !left.exists());
    std::fs::remove_dir_all(&running).unwrap();
}
