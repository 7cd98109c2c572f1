use std::fs;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn links_that_leave_the_root_are_not_opened() {
    let folder = crate::files::testing::Folder::new("root");
    let (inside, outside) = (folder.path().join("site"), folder.path().join("secret"));
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::write(&outside, "secret").unwrap();
    fs::write(inside.join("page"), "page").unwrap();
    symlink("../secret", inside.join("out")).unwrap();
    symlink(&outside, inside.join("absolute")).unwrap();
    symlink("..", inside.join("up")).unwrap();
    symlink("../page", inside.join("sub/stays")).unwrap();
    let mut root = Root::open(&inside).unwrap();
    for has_openat2 in [root.has_openat2, false] {
        root.has_openat2 = has_openat2;
        for path in ["out", "absolute", "up/secret", "up", "..", "../secret", "sub/../../secret"] {
            assert!(root.file(path).is_err(), "{path}");
        }
        assert_eq!(root.file("sub/stays").is_ok(), has_openat2);
        root.file("page").unwrap();
        root.file("").unwrap();
    }
}
