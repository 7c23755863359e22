//! docs/settings.md, written from the catalogue.

use std::fmt::Write as _;

use super::{Layer, SettingDoc, all, facts::facts};

const HEAD: &str = "\
# Settings

What each timeout, retry and error-handling setting does, who reads it, and what happens when it
acts. Written from the catalogue (`scenarios/src/settings/catalogue/`) by
`ringbreaker settings --format markdown`; a test compares, so change the catalogue and not this page.

`ringbreaker settings NAME` explains one, `settings --check` looks at the values you have,
`settings --prove` shows which names the libraries of this machine contain and what is in force,
`settings --ladder` puts every timer in order and says which can never fire.

How values are read, where an entry does not say otherwise:

- NCCL reads numbers as C's strtoll with base 0: `10s` is 10, `true` is 0, `010` is 8, `0x10` is 16.
  Nothing is checked, and an empty value counts as unset. Most are kept from their first use on.
- NCCL takes a variable from the environment first, then from the file that NCCL_CONF_FILE names
  (unset: `.nccl.conf` in the home directory), then from `/etc/nccl.conf`. No file overrides another.
- PyTorch's switches take 1, y, yes, t, true or 0, n, no, f, false in any case and refuse other text;
  its numbers are read up to the first character that is no digit.
";

const UNREAD: &str = "\
These are set in many scripts, and no library reads them. The proof is that a library asks for a
setting by name, so that the name must be among its bytes: `ringbreaker settings --prove NAME` looks
for it in the libraries of this machine. In NCCL 2.28.3, NCCL 2.28.9 and PyTorch 2.11.0 they are not.
(The opposite does not hold: a name may be there and be read only in some builds. A name that is the
end of a longer one may share its bytes, as NCCL_BLOCKING_WAIT does in PyTorch; on x86-64 it counts
only if code points to where it begins, elsewhere the answer is `perhaps`.)
";

/// The whole page.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    for layer in Layer::ALL {
        let of_layer: Vec<_> = all().iter().filter(|doc| doc.layer == *layer).collect();
        let title = match layer {
            Layer::Nobody => "Names that nothing reads".to_owned(),
            Layer::Rank => "The rank of ringbreaker".to_owned(),
            layer => capital(layer.says()),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n## {title}\n");
        if *layer == Layer::Nobody {
            let _ = writeln!(page, "{UNREAD}");
        }
        for doc in of_layer {
            entry(&mut page, doc);
        }
    }
    page
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect::<String>())
}

fn entry(page: &mut String, doc: &SettingDoc) {
    let _ = writeln!(page, "### `{}`\n\n{}.\n", doc.name, capital(&escaped(&doc.effect)));
    for (what, text) in facts(doc) {
        let _ = writeln!(page, "- {what}: {}", escaped(&text));
    }
    page.push('\n');
}

/// Characters that Markdown would take for its own.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, ch| {
        if matches!(ch, '*' | '<' | '_' | '[' | '|') {
            out.push('\\');
        }
        out.push(ch);
        out
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_page_in_the_repository_is_the_one_that_the_catalogue_gives() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == document(),
            "docs/settings.md is stale; `cargo run -- settings --format markdown > docs/settings.md`"
        );
    }

    #[test]
    fn names_that_nothing_reads_have_a_section_of_their_own_with_the_proof() {
        let page = document();
        let (_, unread) = page.split_once("## Names that nothing reads").unwrap();
        for name in ["NCCL_TIMEOUT", "NCCL_SOCKET_TIMEOUT"] {
            assert!(unread.contains(&format!("### `{name}`")), "{name}");
        }
        assert!(!unread.contains("### `NCCL_IB_TIMEOUT`"));
    }
}
