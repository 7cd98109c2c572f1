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

#[test]
fn no_other_folder_is_taken_over() {
    let parent = Pid::from_raw(1234).unwrap();
    for other in ["/tmp", "/tmp/strandline-x-1235", "/tmp/x-1234", "/tmp/strandline-1234-", "/"] {
        assert!(Folder::of(other.into(), parent).is_none(), "{other}");
    }
    let path = std::env::temp_dir().join("strandline-folder-taken-1234");
    for (keeps, is_left) in [(true, true), (false, false)] {
        std::fs::create_dir_all(path.join("inside")).unwrap();
        let mut taken = Folder::of(path.clone(), parent).unwrap();
        if keeps {
            taken.keep();
        }
        drop(taken);
        assert_eq!(path.exists(), is_left);
    }
}
