use super::*;

fn found(html: &str) -> Vec<String> {
    let page = Url::parse("http+sctp://a:8080/dir/page.html").unwrap();
    objects(&page, html).into_iter().map(String::from).collect()
}

#[test]
fn objects_are_found_in_their_order() {
    let html = "<!doctype html><!-- <img src=no.png> --><LINK Rel='icon stylesheet' HREF=style.css>\
        <link rel=canonical href=other.html><script src=\"/app.js?a=1&amp;b=2\" defer></script>\
        <p title=\"<img src='x'>\">text</p><img alt='a > b' src='i.png#part'><img src=i.png>\
        <img data-src=lazy.png><a href=next.html>next</a><img src=\"http://b/c.png\">\
        <img src=data:image/png;base64,AA==>";
    let wanted = [
        "http+sctp://a:8080/dir/style.css",
        "http+sctp://a:8080/app.js?a=1&b=2",
        "http+sctp://a:8080/dir/i.png",
        "http://b/c.png",
    ];
    assert_eq!(found(html), wanted);
}

#[test]
fn broken_pages_end_nothing() {
    for html in
        ["<", "<img", "<img src", "<img src=", "<img src='", "<!--", "<img ==='>", "<img / / src = a.png >"]
    {
        assert!(found(html).len() <= 1, "{html}");
    }
}
