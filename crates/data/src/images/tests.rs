//! Readers of every format: round trips, and a table of bad files.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use tempfile::TempDir;

const IMAGES: [u8; 4] = [0, 0, 8, 3];
const LABELS: [u8; 4] = [0, 0, 8, 1];

fn idx(magic: [u8; 4], extents: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    extents.iter().for_each(|extent| bytes.extend(extent.to_be_bytes()));
    bytes.extend(content);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn npy(descr: &str, shape: &str, content: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(content);
    bytes
}

fn png(
    [width, height]: [u32; 2],
    colour: ::png::ColorType,
    depth: ::png::BitDepth,
    content: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if colour == ::png::ColorType::Indexed {
        encoder.set_palette(vec![9, 8, 7, 1, 2, 3]);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(content).unwrap();
    drop(writer);
    bytes
}

fn grey(size: [u32; 2], content: &[u8]) -> Vec<u8> {
    png(size, ::png::ColorType::Grayscale, ::png::BitDepth::Eight, content)
}

/// A record of CIFAR whose planes hold 1, 2 and 3, except for the first pixel.
fn record(labels: &[u8]) -> Vec<u8> {
    let mut bytes = labels.to_vec();
    for plane in 1..=3 {
        bytes.push(plane * 10);
        bytes.extend([plane; 1023]);
    }
    bytes
}

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn bytes(images: &Images) -> &[u8] {
    let Pixels::Bytes(values) = images.pixels() else { panic!("floats") };
    values
}

/// The message of a set that cannot be read, without the path of the folder.
fn refused(folder: &TempDir, source: &ImageSource) -> String {
    let message = open_images(source).unwrap_err().to_string();
    message.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn idx_files_are_read_with_the_labels_beside_them() {
    let images = idx(IMAGES, &[3, 1, 2], &[1, 2, 3, 4, 5, 6]);
    let labels = idx(LABELS, &[3], &[0, 7, 2]);
    let names = ["t-images-idx3-ubyte", "t-labels-idx1-ubyte", "t-images.idx3-ubyte"];
    for (images_name, images) in [(names[0], images.clone()), (names[2], gzip(&images))] {
        let folder = TempDir::new().unwrap();
        let path = write(&folder, images_name, &images);
        assert_eq!(open_images(&ImageSource::new(&path)).unwrap().labels(), None);
        let labels_name = images_name.replace("images", "labels").replace("idx3", "idx1");
        write(&folder, &format!("{labels_name}.gz"), &gzip(&labels));
        let set = open_images(&ImageSource::new(&path)).unwrap();
        assert_eq!(set.shape(), ImageShape { height: 1, width: 2, channels: 1 });
        assert_eq!((set.len(), bytes(&set)), (3, &[1, 2, 3, 4, 5, 6][..]));
        assert_eq!((set.labels(), set.classes()), (Some(&[0, 7, 2][..]), 8));
        let listing =
            [(images_name.to_owned(), &images), (format!("{labels_name}.gz"), &gzip(&labels))]
                .map(|(name, bytes)| format!("{}  {name}\n", linwright_run::sha256_hex(bytes)));
        assert_eq!(set.sha256(), linwright_run::sha256_hex(listing.concat().as_bytes()));
        let part = ImageSource { first: 1, count: Some(1), ..ImageSource::new(&path) };
        let part = open_images(&part).unwrap();
        assert_eq!((bytes(&part), part.labels(), part.classes()), (&[3, 4][..], Some(&[7][..]), 8));
        assert_eq!(set.select(&[2, 1]).labels(), Some(&[2, 7][..]));
        assert_eq!(bytes(&set.select(&[2, 1, 2])), [5, 6, 3, 4, 5, 6]);
    }
    let path = TempDir::new().unwrap();
    let plain = write(&path, names[0], &images);
    let labels_path = write(&path, "other", &labels);
    let given =
        ImageSource { labels: Some(ImageFiles::One(labels_path)), ..ImageSource::new(plain) };
    assert_eq!(open_images(&given).unwrap().labels(), Some(&[0, 7, 2][..]));
}

#[test]
fn records_of_cifar_become_pixels_of_three_channels() {
    let folder = TempDir::new().unwrap();
    let first = write(&folder, "data_batch_1.bin", &[record(&[3]), record(&[9])].concat());
    let second = write(&folder, "data_batch_2.bin", &record(&[0]));
    let several = ImageFiles::Several(vec![first, second]);
    let set = open_images(&ImageSource { images: several, ..ImageSource::new("") }).unwrap();
    assert_eq!(set.shape(), ImageShape { height: 32, width: 32, channels: 3 });
    assert_eq!((set.labels(), set.classes()), (Some(&[3, 9, 0][..]), 10));
    assert_eq!(bytes(&set)[..6], [10, 20, 30, 1, 2, 3]);
    assert_eq!(bytes(&set).len(), 3 * 3072);
    let hundred = write(&folder, "train", &record(&[19, 99]));
    for (format, label, classes) in [
        (None, 99, 100),
        (Some(ImageFormat::Cifar100), 99, 100),
        (Some(ImageFormat::Cifar100Coarse), 19, 20),
    ] {
        let set = open_images(&ImageSource { format, ..ImageSource::new(&hundred) }).unwrap();
        assert_eq!((set.labels(), set.classes()), (Some(&[label][..]), classes));
        assert_eq!(bytes(&set)[3069..], [1, 2, 3]);
    }
    // These first bytes of a record are those of an idx file as well.
    let mut like_idx = record(&[0]);
    like_idx[1..4].copy_from_slice(&[0, 8, 3]);
    let like_idx = write(&folder, "like.bin", &like_idx);
    assert_eq!(open_images(&ImageSource::new(like_idx)).unwrap().classes(), 10);
}

#[test]
fn folders_of_png_files_name_the_classes() {
    use ::png::BitDepth::{Eight, One};
    use ::png::ColorType::{Grayscale, GrayscaleAlpha, Indexed, Rgb, Rgba};
    let folder = TempDir::new().unwrap();
    write(&folder, "dogs/b.PNG", &png([2, 1], GrayscaleAlpha, Eight, &[5, 255, 6, 255]));
    write(&folder, "dogs/a.png", &png([2, 1], Grayscale, One, &[0b0100_0000]));
    write(&folder, "cats/a.png", &grey([2, 1], &[3, 4]));
    write(&folder, "dogs/.hidden", b"");
    let set = open_images(&ImageSource::new(folder.path())).unwrap();
    assert_eq!(set.class_names(), ["cats", "dogs"]);
    assert_eq!((set.labels(), set.classes()), (Some(&[0, 1, 1][..]), 2));
    assert_eq!(bytes(&set), [3, 4, 0, 255, 5, 6]);
    assert_eq!(open_images(&ImageSource::new(folder.path().join("dogs"))).unwrap().labels(), None);
    let colours = TempDir::new().unwrap();
    write(&colours, "a.png", &png([1, 2], Rgb, Eight, &[1, 2, 3, 4, 5, 6]));
    write(&colours, "b.png", &png([1, 2], Rgba, Eight, &[7, 8, 9, 255, 1, 1, 1, 255]));
    write(&colours, "c.png", &png([1, 2], Indexed, One, &[0, 0x80]));
    let set = open_images(&ImageSource::new(colours.path())).unwrap();
    assert_eq!(set.shape(), ImageShape { height: 2, width: 1, channels: 3 });
    assert_eq!(bytes(&set), [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1, 9, 8, 7, 1, 2, 3]);
    let lines = ["a", "b", "c"].map(|name| {
        let bytes = fs::read(colours.path().join(format!("{name}.png"))).unwrap();
        format!("{}  {name}.png\n", linwright_run::sha256_hex(&bytes))
    });
    assert_eq!(set.sha256(), linwright_run::sha256_hex(lines.concat().as_bytes()));
}

#[test]
fn png_files_of_several_sizes_are_brought_to_one() {
    let folder = TempDir::new().unwrap();
    write(&folder, "x/a.png", &grey([2, 2], &[0, 10, 20, 30]));
    write(&folder, "y/a.png", &grey([1, 4], &[1, 2, 3, 5]));
    let source = ImageSource { resize: Some([2, 1]), ..ImageSource::new(folder.path()) };
    let set = open_images(&source).unwrap();
    assert_eq!((bytes(&set), set.labels()), (&[5, 25, 2, 4][..], Some(&[0, 1][..])));
    let source = ImageSource { first: 1, ..source };
    assert_eq!(bytes(&open_images(&source).unwrap()), [2, 4]);
}

#[test]
fn arrays_are_bytes_or_floats_with_labels_of_any_integer() {
    let folder = TempDir::new().unwrap();
    let doubles: Vec<u8> = [0.5_f64, -1.0, 2.0, 0.1].iter().flat_map(|v| v.to_be_bytes()).collect();
    let floats: Vec<u8> = [0.5_f32, -1.0, 2.0, 0.1].iter().flat_map(|v| v.to_le_bytes()).collect();
    for (descr, content) in [(">f8", doubles), ("<f4", floats)] {
        let path = write(&folder, "x.npy", &npy(descr, "(2, 1, 1, 2)", &content));
        let set = open_images(&ImageSource::new(&path)).unwrap();
        assert_eq!(set.shape(), ImageShape { height: 1, width: 1, channels: 2 });
        assert_eq!(set.pixels(), &Pixels::Floats(vec![0.5, -1.0, 2.0, 0.1]));
    }
    // Channels recognised by their number, and maps of many features.
    for (shape, channels) in
        [("(1, 3, 8, 4)", 4), ("(1, 8, 8, 2)", 2), ("(2, 1, 1, 9)", 9), ("(1, 8, 8, 9)", 9)]
    {
        let count = shape.trim_matches(['(', ')']).split(", ").map(|n| n.parse::<usize>().unwrap());
        let path = write(&folder, "x.npy", &npy("|u1", shape, &vec![0; count.product()]));
        assert_eq!(open_images(&ImageSource::new(&path)).unwrap().shape().channels, channels);
    }
    let images = write(&folder, "x.npy", &npy("|u1", "(2, 1, 2)", &[1, 2, 3, 4]));
    for (descr, content) in [
        ("|u1", vec![5, 0]),
        (">i2", vec![0, 5, 0, 0]),
        ("<i8", [5_i64, 0].iter().flat_map(|v| v.to_le_bytes()).collect()),
    ] {
        let labels = write(&folder, "y.npy", &npy(descr, "(2,)", &content));
        let labels = Some(ImageFiles::One(labels));
        let set = open_images(&ImageSource { labels, ..ImageSource::new(&images) }).unwrap();
        assert_eq!((bytes(&set), set.labels()), (&[1, 2, 3, 4][..], Some(&[5, 0][..])));
    }
}

#[test]
fn recipes_hold_sources_and_refuse_unknown_keys() {
    let read = serde_json::from_str::<ImageSource>;
    let source = read(r#"{"images": ["a", "b"], "format": "cifar100_coarse", "resize": [16, 16]}"#);
    let source = source.unwrap();
    let want = ImageSource {
        images: ImageFiles::Several(vec!["a".into(), "b".into()]),
        format: Some(ImageFormat::Cifar100Coarse),
        resize: Some([16, 16]),
        ..ImageSource::new("")
    };
    assert_eq!(source, want);
    assert_eq!(serde_json::to_string(&ImageSource::new("a")).unwrap(), r#"{"images":"a"}"#);
    let error = read(r#"{"images": "a", "label": "b"}"#).unwrap_err().to_string();
    assert!(error.contains("unknown field `label`"), "{error}");
}

#[test]
fn bad_files_are_refused_with_place_expected_and_found() {
    let pixels = [1, 2, 3, 4, 5, 6];
    let good = idx(IMAGES, &[3, 1, 2], &pixels);
    let cut = |bytes: &[u8], by: usize| bytes[..bytes.len() - by].to_vec();
    let mut damaged = gzip(&good);
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    let nan: Vec<u8> = [0.5, f32::NAN, 2.0, 0.1].iter().flat_map(|v| v.to_le_bytes()).collect();
    let large: Vec<u8> = [0.5, 1e39].iter().flat_map(|v: &f64| v.to_le_bytes()).collect();
    let huge = "a is truncated: 3 images of 1 x 2 take 22 bytes, found";
    let cases = [
        (cut(&good, 2), format!("{huge} 20; fetch the file again")),
        ([&good[..], &[0]].concat(), "a has more than the 22 bytes of 3 images of 1 x 2; header and content belong to different files".into()),
        (cut(&good, 12), "a ends after 10 bytes, within height of its header".into()),
        (idx([0, 0, 13, 3], &[1, 1, 1], &[0; 4]), "a begins with 0x00000d03, expected 0x00000803, an idx file of images in bytes".into()),
        (idx(LABELS, &[3], &[0, 1, 2]), "a is an idx file of labels, expected images".into()),
        (idx(IMAGES, &[u32::MAX; 3], &pixels), "a: the images take 18446744073709551615 bytes or more in memory, at most 4294967296 are accepted; take fewer images, or resize them".into()),
        (idx(IMAGES, &[0, 1, 2], &[]), "a holds 0 images of 1 x 2, expected at least one pixel".into()),
        (gzip(&cut(&good, 2)), format!("{huge} 20; fetch the file again")),
        (cut(&gzip(&good), 14), format!("{huge} 17; fetch the file again")),
        (cut(&gzip(&good), 1), "a: damaged gzip data: the checksum at its end is missing; fetch the file again".into()),
        (damaged, "a: damaged gzip data: corrupt gzip stream does not have a matching checksum; fetch the file again".into()),
        (gzip(b"tape archive"), "a begins with 0x74617065, expected 0x00000803, an idx file of images in bytes".into()),
        (b"hello".to_vec(), "a has 5 bytes that begin with 68656c6c6f, which is not a known format of images; expected idx (also in gzip), CIFAR records of 3073 or 3074 bytes, .npy, .png, or a folder of classes".into()),
        (Vec::new(), "a has 0 bytes that begin with , which is not a known format of images; expected idx (also in gzip), CIFAR records of 3073 or 3074 bytes, .npy, .png, or a folder of classes".into()),
        (record(&[10]), "a: label 0 is 10, expected 0 to 9".into()),
        ([record(&[0, 99]), record(&[0, 100])].concat(), "a: label 1 is 100, expected 0 to 99".into()),
        (npy("<f4", "(2, 1, 2)", &nan), "a: image 0, row 0, column 1, channel 0 is NaN; expected finite numbers in the range of f32".into()),
        (npy("<f8", "(1, 1, 1, 2)", &large), "a: image 0, row 0, column 0, channel 1 is 1000000000000000000000000000000000000000; expected finite numbers in the range of f32".into()),
        (npy("|u1", "(2, 2)", &[0; 4]), "a has shape [2, 2], expected (images, height, width) or (images, height, width, channels)".into()),
        (npy("|u1", "(2, 0, 2)", &[]), "a has shape [2, 0, 2], expected at least one pixel".into()),
        (npy("|u1", "(2, 3, 8, 5)", &[0; 240]), "a has shape [2, 3, 8, 5]: 2 images of 3 x 8 with 5 channels, or channels first, (images, channels, height, width); expected (images, height, width, channels): save numpy.ascontiguousarray(a.transpose(0, 2, 3, 1))".into()),
        (npy("<f4", "(6, 1, 5, 5)", &[0; 600]), "a has shape [6, 1, 5, 5]: 6 images of 1 x 5 with 5 channels, or channels first, (images, channels, height, width); expected (images, height, width, channels): save numpy.ascontiguousarray(a.transpose(0, 2, 3, 1))".into()),
        (npy("|u1", "(8, 5, 3, 6)", &[0; 720]), "a has shape [8, 5, 3, 6]: 8 images of 5 x 3 with 6 channels, or images last, (height, width, channels, images); expected (images, height, width, channels): save numpy.ascontiguousarray(a.transpose(3, 0, 1, 2))".into()),
        (npy("|u1", "(7, 6, 5, 5)", &[0; 1050]), "a has shape [7, 6, 5, 5]: 7 images of 6 x 5 with 5 channels, or channels first, (images, channels, height, width); expected (images, height, width, channels): save numpy.ascontiguousarray(a.transpose(0, 2, 3, 1))".into()),
        (npy("|u1", "(3, 5, 5, 6)", &[0; 450]), "a has shape [3, 5, 5, 6]: 3 images of 5 x 5 with 6 channels, or images last, (channels, height, width, images); expected (images, height, width, channels): save numpy.ascontiguousarray(a.transpose(3, 1, 2, 0))".into()),
        (b"PK\x03\x04 archive".to_vec(), "a is an archive, such as .npz, of which no array is chosen; save the one with the images as .npy".into()),
        (npy("<i4", "(1, 1, 1)", &[0; 4]), "a holds I32, expected images in u8, f32 or f64: convert them with astype".into()),
        (npy("|u1", "(2, 1, 2)", &[0; 3]), "a is truncated: numbers of shape [2, 1, 2] take 77 bytes, found 76; fetch the file again".into()),
        (cut(&npy("|u1", "(2, 1, 2)", &[]), 9), "a has a broken header".into()),
    ];
    let folder = TempDir::new().unwrap();
    for (bytes, want) in cases {
        let source = ImageSource::new(write(&folder, "a", &bytes));
        assert_eq!(refused(&folder, &source), want);
    }
}

#[test]
fn compressed_data_are_not_expanded_beyond_the_promise() {
    let zeros = vec![0; 1 << 20];
    let folder = TempDir::new().unwrap();
    let bomb = gzip(&[idx(IMAGES, &[3, 1, 2], &[0; 6]), zeros].concat());
    let path = write(&folder, "a", &bomb);
    let want = "a has more than the 22 bytes of 3 images of 1 x 2; header and content belong to different files";
    assert_eq!(refused(&folder, &ImageSource::new(path)), want);
    let promise = gzip(&idx(IMAGES, &[60_000, 28, 28], &[]));
    let (held, path) = (promise.len(), write(&folder, "a", &promise));
    let want = format!(
        "a promises 60000 images of 28 x 28 in 47040016 bytes, expected at most {} in {held} compressed bytes",
        held * 1032
    );
    assert_eq!(refused(&folder, &ImageSource::new(path)), want);
    // Possible, and far more than images of this size are.
    let pixels = gzip(&idx(IMAGES, &[8, 1024, 1024], &vec![7; 8 << 20]));
    let (held, path) = (pixels.len(), write(&folder, "a", &pixels));
    let want = format!(
        "a promises 8 images of 1024 x 1024 in 8388624 bytes, expected at most 4194304 in {held} compressed bytes; if this is intended, decompress the file first"
    );
    assert_eq!(refused(&folder, &ImageSource::new(path)), want);
}

#[test]
fn files_that_are_not_of_the_given_format_are_refused() {
    let folder = TempDir::new().unwrap();
    let part = write(&folder, "batch.bin", &record(&[1])[..3000]);
    let source = |path: &PathBuf, format| ImageSource { format, ..ImageSource::new(path) };
    let want = "batch.bin has 3000 bytes, expected whole records of 3073: it is truncated, or not the binary version of CIFAR";
    assert_eq!(refused(&folder, &source(&part, Some(ImageFormat::Cifar10))), want);
    let both = write(&folder, "both.bin", &vec![0; 3073 * 3074]);
    let want = "both.bin has 9446402 bytes, which are whole records of CIFAR-10 and of CIFAR-100; give the format cifar10 or cifar100";
    assert_eq!(refused(&folder, &source(&both, None)), want);
    let set = open_images(&source(&both, Some(ImageFormat::Cifar100))).unwrap();
    assert_eq!(set.len(), 3073);
    let want = "batch.bin is not a numpy file";
    assert_eq!(refused(&folder, &source(&part, Some(ImageFormat::Npy))), want);
}

#[test]
fn labels_that_do_not_belong_to_the_images_are_refused() {
    let folder = TempDir::new().unwrap();
    let images = write(&folder, "a", &idx(IMAGES, &[3, 1, 2], &[0; 6]));
    let negative = [1_i32, -2, 3].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let beyond = [1_u32, 2, 65_536].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    for (labels, want) in [
        (
            idx(LABELS, &[2], &[0, 1]),
            "l holds 2 labels, a holds 3 images; expected one label for each image",
        ),
        (
            idx(LABELS, &[3], &[0, 1]),
            "l is truncated: 3 labels take 11 bytes, found 10; fetch the file again",
        ),
        (idx(IMAGES, &[3, 1, 1], &[0; 3]), "l is an idx file of images, expected labels"),
        (npy("<i4", "(3,)", &negative), "l: label 1 is -2, expected 0 to 65535"),
        (npy("<u4", "(3,)", &beyond), "l: label 2 is 65536, expected 0 to 65535"),
        (npy("<f4", "(3,)", &[0; 12]), "l holds F32, expected labels in integers"),
        (npy("|u1", "(3, 1)", &[0; 3]), "l has shape [3, 1], expected (images,) for labels"),
    ] {
        let labels = Some(ImageFiles::One(write(&folder, "l", &labels)));
        assert_eq!(refused(&folder, &ImageSource { labels, ..ImageSource::new(&images) }), want);
    }
    let labels = Some(ImageFiles::One(write(&folder, "l", &idx(LABELS, &[1], &[0]))));
    let cifar = write(&folder, "c.bin", &record(&[3]));
    let want = "c.bin includes labels; omit `labels`";
    assert_eq!(refused(&folder, &ImageSource { labels, ..ImageSource::new(cifar) }), want);
}

#[test]
fn bad_png_files_and_folders_are_refused() {
    use ::png::BitDepth::{Eight, Sixteen};
    use ::png::ColorType::{Grayscale, Rgb, Rgba};
    let good = grey([2, 1], &[3, 4]);
    let mut wide = good.clone();
    wide[16..20].copy_from_slice(&[0, 0, 0x10, 0]);
    let mut checksum = good.clone();
    checksum[30] ^= 1;
    let cases = [
        (
            grey([1, 2], &[3, 4]),
            "x/b.png holds images of 2 x 1 x 1, x/a.png of 1 x 2 x 1; expected one shape (`resize` changes height and width of PNG files)",
        ),
        (
            png([2, 1], Rgb, Eight, &[0; 6]),
            "x/b.png holds images of 1 x 2 x 3, x/a.png of 1 x 2 x 1; expected one shape (`resize` changes height and width of PNG files)",
        ),
        (
            png([2, 1], Grayscale, Sixteen, &[0; 4]),
            "x/b.png has 16 bits per channel, expected at most 8: convert it",
        ),
        (
            png([2, 1], Rgba, Eight, &[0, 0, 0, 255, 0, 0, 0, 254]),
            "x/b.png is transparent at row 0, column 1; expected opaque pixels: put it on a background",
        ),
        (
            good[..good.len() - 16].to_vec(),
            "x/b.png is not a valid PNG file: unexpected end of file",
        ),
        (
            checksum,
            "x/b.png is not a valid PNG file: CRC error: expected 0xd1482056 have 0xd1492056 while decoding ChunkType { type: IHDR, critical: true, private: false, reserved: false, safecopy: false } chunk.",
        ),
        (b"text".to_vec(), "x/b.png is not a PNG file, despite its name"),
    ];
    let folder = TempDir::new().unwrap();
    write(&folder, "x/a.png", &good);
    let source = ImageSource::new(folder.path());
    for (bytes, want) in cases {
        write(&folder, "x/b.png", &bytes);
        assert_eq!(refused(&folder, &source), want);
    }
    let strange = write(&folder, "x/b.png", &good).with_file_name("b.txt");
    fs::write(&strange, "").unwrap();
    let want = "x/b.txt is not a .png file; convert it, or move it away";
    assert_eq!(refused(&folder, &source), want);
    fs::remove_file(strange).unwrap();
    let stray = write(&folder, "readme", b"");
    let want = "readme is next to folders of classes; move it into one of them, or away";
    assert_eq!(refused(&folder, &source), want);
    fs::remove_file(stray).unwrap();
    fs::create_dir(folder.path().join("y")).unwrap();
    assert_eq!(refused(&folder, &source), "y is an empty folder, expected .png files");
}

#[test]
fn pixels_are_bounded_by_the_bytes_of_png_files() {
    use ::png::{BitDepth::Eight, ColorType::Grayscale};
    let folder = TempDir::new().unwrap();
    let page = png([4096, 4096], Grayscale, Eight, &vec![255; 1 << 24]);
    assert!(page.len() < 1 << 17, "{}", page.len());
    for name in ["x/a.png", "x/b.png", "x/c.png"] {
        write(&folder, name, &page);
    }
    let source = ImageSource::new(folder.path().join("x"));
    let told = refused(&folder, &source);
    let expected =
        "x/c.png brings the pixels of the files to 50331648 bytes, expected at most 33554432 in";
    assert!(told.starts_with(expected), "{told}");
    let small = ImageSource { resize: Some([8, 8]), ..source };
    assert_eq!(open_images(&small).unwrap().len(), 3);
    let large = png([6144, 6144], Grayscale, Eight, &vec![255; 6144 * 6144]);
    let path = write(&folder, "large.png", &large);
    // What is kept counts, not what is read row by row.
    let whole = ImageSource::new(path);
    let small = open_images(&ImageSource { resize: Some([8, 8]), ..whole.clone() }).unwrap();
    assert_eq!(bytes(&small), [255; 64]);
    let told = refused(&folder, &whole);
    let expected = "6144 x 6144 pixels in 37748736 bytes, expected at most 33554432 in a file of";
    assert!(
        told.contains(expected)
            && told.ends_with("bytes: resize it by `resize`, or make it smaller"),
        "{told}"
    );
    let told = refused(&folder, &ImageSource { resize: Some([6000, 6000]), ..whole.clone() });
    assert!(told.ends_with("bytes when resized: choose a smaller size"), "{told}");
    let told = refused(&folder, &ImageSource { resize: Some([0, 8]), ..whole });
    assert!(told.contains("resize: is 0 x 8"), "{told}");
}

#[test]
fn a_large_image_is_resized_as_a_small_one_is() {
    use ::png::{BitDepth::Eight, ColorType::Rgba};
    let folder = TempDir::new().unwrap();
    let side = 3072_usize;
    let pixel = |at: usize| [(at / side % 251) as u8, (at % side / 32) as u8, 7, 255];
    let mut content: Vec<u8> = (0..side * side).flat_map(pixel).collect();
    let path = write(&folder, "a.png", &png([side as u32; 2], Rgba, Eight, &content));
    assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
    let source = ImageSource { resize: Some([5, 3]), ..ImageSource::new(&path) };
    let shape = ImageShape { height: side, width: side, channels: 3 };
    let opaque = content.chunks(4).flat_map(|pixel| pixel[..3].to_vec()).collect();
    let whole = Images::new(shape, Pixels::Bytes(opaque), None).resized([5, 3]).unwrap();
    assert_eq!(bytes(&open_images(&source).unwrap()), bytes(&whole));
    content[4 * (3 * side + 2) + 3] = 9;
    write(&folder, "a.png", &png([side as u32; 2], Rgba, Eight, &content));
    assert!(refused(&folder, &source).contains("transparent at row 3, column 2"));
}

#[test]
fn a_png_header_larger_than_its_file_is_refused_before_memory_is_taken() {
    let mut bytes = grey([2, 1], &[3, 4]);
    let header = |bytes: &mut Vec<u8>, width: u32, height: u32| {
        bytes[16..20].copy_from_slice(&width.to_be_bytes());
        bytes[20..24].copy_from_slice(&height.to_be_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    };
    let held = bytes.len();
    for (width, height, want) in [
        (
            1 << 31,
            1 << 31,
            "a is 2147483648 x 2147483648 pixels, expected at most 67108864 in all".to_owned(),
        ),
        (1 << 14, 1 << 13, "a is 8192 x 16384 pixels, expected at most 67108864 in all".into()),
        (
            1 << 12,
            1 << 12,
            format!(
                "a is 4096 x 4096 pixels in 16777216 bytes, expected at most {} in a file of {held} bytes",
                held * 1032
            ),
        ),
    ] {
        header(&mut bytes, width, height);
        let error = Images::from_bytes(Path::new("a"), &bytes, None).unwrap_err().to_string();
        assert!(error.starts_with(&want), "{error:?} is not {want:?}");
    }
}

#[test]
fn parts_and_paths_that_are_not_there_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a", &idx(IMAGES, &[3, 1, 2], &[0; 6]));
    let source = ImageSource::new(&path);
    for (source, want) in [
        (
            ImageSource { first: 3, ..source.clone() },
            "a has 3 images, expected at least 4: `first` is 3",
        ),
        (
            ImageSource { first: 1, count: Some(3), ..source.clone() },
            "a has 3 images, expected at least 4: `first` is 1",
        ),
        (
            ImageSource { count: Some(0), ..source.clone() },
            "count: is 0, expected at least one image",
        ),
        (
            ImageSource { images: ImageFiles::Several(Vec::new()), ..source.clone() },
            "images: is an empty list, expected at least one file",
        ),
        (
            ImageSource { resize: Some([0, 1]), ..source.clone() },
            "resize: is 0 x 1, expected sides of 1 to 16384",
        ),
    ] {
        assert_eq!(refused(&folder, &source), want);
    }
    let missing = refused(&folder, &ImageSource::new(folder.path().join("b")));
    assert!(missing.starts_with("cannot read b: No such file"), "{missing}");
    let floats = write(&folder, "f.npy", &npy("<f4", "(1, 1, 2)", &[0; 8]));
    let images = ImageFiles::Several(vec![path, floats]);
    let want = "f.npy holds floats, expected bytes as in a";
    assert_eq!(refused(&folder, &ImageSource { images, ..source }), want);
}

#[test]
fn pictures_are_written_and_read_back() {
    for channels in [1, 3] {
        let shape = ImageShape { height: 3, width: 5, channels };
        let pixels: Vec<u8> = (0..15 * channels as u8).map(|k| 5 * k).collect();
        let bytes = png_bytes(shape, &pixels, "linwright").unwrap();
        assert!(bytes.windows(9).any(|part| part == b"linwright"));
        let read = Images::from_bytes(Path::new("a.png"), &bytes, None).unwrap();
        assert_eq!((read.shape(), read.pixels()), (shape, &Pixels::Bytes(pixels)));
    }
    let shape = ImageShape { height: 1, width: 1, channels: 2 };
    let error = png_bytes(shape, &[1, 2], "linwright").unwrap_err().to_string();
    assert!(error.contains("expected 1 or 3 channels"), "{error}");
}
