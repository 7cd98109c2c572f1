use super::*;

fn all(base: &str, text: &str, kind: Kind) -> Vec<Object> {
    let mut objects = Objects::new(1000);
    objects.search(&Url::parse(base).unwrap(), text, kind);
    objects.take()
}

fn found(html: &str) -> Vec<String> {
    all("http+sctp://a:8080/dir/page.html", html, Kind::Page)
        .into_iter()
        .map(|object| object.url.into())
        .collect()
}

fn in_style(css: &str) -> Vec<(String, bool)> {
    let found = all("https://a/css/style.css", css, Kind::Style);
    found.into_iter().map(|object| (object.url.into(), object.is_style)).collect()
}

#[test]
fn objects_are_found_in_their_order() {
    let html = "<!doctype html><!-- <img src=no.png> --><LINK Rel='icon stylesheet' HREF=style.css>\
        <link rel=canonical href=other.html><script src=\"/app.js?a=1&amp;b=2\" defer>'<img src=js.png>'</script>\
        <p title=\"<img src='x'>\">text</p><img alt='a > b' src='i.png#part'><img src=i.png>\
        <img data-src=lazy.png><a href=next.html>next</a><img src=\"http://b/c.png\">\
        <img src=data:image/png;base64,AA==><title><img src=title.png></title><img src=''><use href='#icon'/>\
        <noscript><img src=lazy.png></noscript>\
        <svg><image href=s.png /><use xlink:href='sprites.svg#x'/><feImage href=f.png /></svg>";
    let wanted = [
        "http+sctp://a:8080/dir/style.css",
        "http+sctp://a:8080/app.js?a=1&b=2",
        "http+sctp://a:8080/dir/i.png",
        "http://b/c.png",
        "http+sctp://a:8080/dir/lazy.png",
        "http+sctp://a:8080/dir/s.png",
        "http+sctp://a:8080/dir/sprites.svg",
        "http+sctp://a:8080/dir/f.png",
    ];
    assert_eq!(found(html), wanted);
}

#[test]
fn base_elements_move_relative_urls() {
    let html = "<base target=_top><img src=1.png><base href=/static/x><base href=/other/><img src=2.png>\
        <base href='data:,x'>";
    assert_eq!(found(html), ["http+sctp://a:8080/dir/1.png", "http+sctp://a:8080/static/2.png"]);
}

#[test]
fn candidates_of_srcset_are_found() {
    let html = "<img src=a.png srcset='b.png, c.png 2x,d.png 3x , /e,f.png 100w, g.png (x, y) 1x'>\
        <source srcset=h.png><link rel=preload as=image imagesrcset='i.png 1x'><img srcset=', ,'>";
    let wanted = [
        "dir/a.png",
        "dir/b.png",
        "dir/c.png",
        "dir/d.png",
        "e,f.png",
        "dir/g.png",
        "dir/h.png",
        "dir/i.png",
    ];
    assert_eq!(found(html), wanted.map(|path| format!("http+sctp://a:8080/{path}")));
}

#[test]
fn style_elements_and_attributes_are_searched() {
    let html = "<style>@import 'a.css'; p { background: url(b.png) }</style><p style=\"background:url('c.png')\">\
        url(no.png)</p><style></style>url(no2.png)";
    assert_eq!(found(html), ["a.css", "b.png", "c.png"].map(|name| format!("http+sctp://a:8080/dir/{name}")));
}

#[test]
fn style_sheets_name_images_and_other_sheets() {
    let css = "@charset 'utf-8'; @import url(\"a.css\") screen; @IMPORT 'b.css' supports(x);\
        @namespace svg url(http://www.w3.org/2000/svg); /* url(no.png) */\
        @font-face { src: url( ../f.woff2?#iefix ) format('woff2'), URL('f.ttf') }\
        p { background: url(a\\)b.png); content: 'url(no.png)'; mask: url(#mask); x: curl(no.png) }\
        q { background: url('\\64 .png'), url(data:image/png;base64,AA==) url(";
    let wanted = [
        ("https://a/css/a.css", true),
        ("https://a/css/b.css", true),
        ("https://a/f.woff2?", false),
        ("https://a/css/f.ttf", false),
        ("https://a/css/a)b.png", false),
        ("https://a/css/d.png", false),
    ];
    assert_eq!(in_style(css), wanted.map(|(url, is_style)| (url.to_owned(), is_style)));
}

#[test]
fn broken_texts_end_nothing() {
    for html in
        ["<", "<img", "<img src", "<img src=", "<img src='", "<!--", "<img ==='>", "<img / / src = a.png >"]
    {
        assert!(found(html).len() <= 1, "{html}");
    }
    for css in [
        "\\",
        "@",
        "@import",
        "@import \"",
        "url(",
        "url(\"",
        "url(\\",
        "url('\\\n",
        "/*",
        "\u{e9}url(x",
        "\\\u{e9}",
    ] {
        assert!(in_style(css).len() <= 1, "{css}");
    }
}

#[test]
fn objects_are_limited_and_found_once() {
    let html: String = (0..3000).map(|number| format!("<img src={}>", number % 1500)).collect();
    let base = Url::parse("http://a/").unwrap();
    let mut objects = Objects::new(1000);
    objects.exclude(&Url::parse("http://a/7#part").unwrap());
    objects.search(&base, &html, Kind::Page);
    let found = objects.take();
    assert_eq!((found.len(), objects.was_full()), (1000, true));
    assert!(found.iter().all(|object| object.url.path() != "/7"));
    objects.search(&base, &html, Kind::Page);
    assert!(objects.take().is_empty());
}

/// With a list that is searched for each object, this takes minutes.
#[test]
fn large_pages_take_linear_time() {
    let html: String = (0..400_000).map(|number| format!("<img src={number}>")).collect();
    let mut objects = Objects::new(usize::MAX);
    objects.search(&Url::parse("http://a/").unwrap(), &html, Kind::Page);
    assert_eq!(objects.take().len(), 400_000);
    // Each link copies the base.
    let html = format!("<base href='http://h/{}/'>{}", "A".repeat(8 << 20), "<img src=1>".repeat(400_000));
    objects.search(&Url::parse("http://a/").unwrap(), &html, Kind::Page);
    let found: Vec<_> = objects.take().into_iter().map(|object| object.url).collect();
    assert_eq!(found, [], "the base is too long, and http://a/1 is known");
    // Nor do texts that never close what they open.
    for text in ["/*", "url(", "@import '", "<style>", "<!--", "<noscript>", "<p style='url("] {
        for kind in [Kind::Page, Kind::Style] {
            objects.search(&Url::parse("http://a/").unwrap(), &text.repeat(200_000), kind);
        }
    }
}

#[test]
fn media_types_say_what_is_searched() {
    assert_eq!(Kind::of_media_type("Text/HTML; charset=utf-8"), Some(Kind::Page));
    assert_eq!(Kind::of_media_type("text/css"), Some(Kind::Style));
    assert_eq!(Kind::of_media_type("image/png"), None);
}
