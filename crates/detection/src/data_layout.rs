//! What of a data set is checked before Python starts.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use std::fs;
use std::path::Path;

/// The list of images in a data set.
pub(super) const LIST: &str = "annotations/trainval.txt";

/// Refuses a folder that is no data set, or lists no image.
pub(super) fn check(data: &Path) -> Result<()> {
    if !["images", LIST].iter().all(|part| data.join(part).exists()) {
        return Err(Error::input("this is not a data set to train detectors with")
            .file(data)
            .expected(
                "the layout of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt",
            )
            .help("perf4sight detection --make-dataset pets-small makes one"));
    }
    match images(data)? {
        0 => Err(Error::input("it lists no image")
            .file(data.join(LIST))
            .expected("a line for each image, which begins with its name")),
        _ => Ok(()),
    }
}

/// Refuses a batch of more images than the data set lists.
pub(super) fn check_batch(data: &Path, largest: u64) -> Result<()> {
    let images = images(data)?;
    match largest > images {
        true => {
            Err(Error::usage(format!("a batch of {largest} images of a data set of {}", count_text(images, "image")))
                .expected(format!("{images} or fewer (batch_size)")))
        }
        false => Ok(()),
    }
}

/// How many images a data set lists, as its worker counts them: lines with a first word, but comments.
fn images(data: &Path) -> Result<u64> {
    let list = data.join(LIST);
    let text = fs::read(&list).map_err(|cause| Error::io(&list, "read the list of images", &cause))?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.trim_start_matches('\u{feff}').lines();
    Ok(lines.filter(|line| !line.starts_with('#') && !line.trim().is_empty()).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn images_are_counted_as_the_list_has_them() {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("images")).unwrap();
        fs::create_dir_all(folder.path().join("annotations")).unwrap();
        let checked = |list: &str, batch: u64| {
            fs::write(folder.path().join(LIST), list).unwrap();
            check(folder.path()).and_then(|()| check_batch(folder.path(), batch)).map_err(|error| error.to_string())
        };
        let two = "\u{feff}#Image CLASS-ID\na 1 1 1\n\n  \nb 1 1 1\n";
        assert_eq!(checked(two, 2), Ok(()));
        assert!(checked(two, 3).unwrap_err().contains("a batch of 3 images of a data set of 2 images"));
        assert!(checked("#Image CLASS-ID\n\n", 1).unwrap_err().contains("it lists no image"));
    }
}
