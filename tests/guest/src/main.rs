// SPDX-License-Identifier: GPL-2.0

//! What the VM tests do inside the guest: one process that does the bulk of a test.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod access;
mod args;
mod behave;
mod bench;
mod crowd;
mod cycles;
mod foreign;
mod full;
mod given_up;
mod handles;
mod images;
mod kernel;
mod manifest;
mod many;
mod model;
mod names;
mod pace;
mod powercut;
mod readback;
mod refused;
mod remount;
mod report;
mod rng;
mod rounds;
mod shrink;
mod storm;
mod sys;
mod trace;
mod tree;
mod volumes;
mod why;
mod writeback;
mod xattrs;

use args::Args;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use why::Why;

/// The subcommands and what they want.
const USAGE: &str = "\
populate DIR --seed N --files N --bytes N --threads N --fragments N   make a planned tree
verify DIR (the same)                                               check it
fill DEVICE [--bytes N]                                             write no zeros over it
manifest DIR [--layout] [--xattrs] [--access]                       print it as text
foreign DIR                                                         make what ext4 alone can
flags DIR [--refusing]                                              try the flags that it set
access DIR                                                          print who may do what
many DIR --seed N --count N                                         make many names
find DIR (the same)                                                 find and list them
add DIR (the same) --more N                                         add names to them
added DIR (the same)                                                find those, too
full DIR [--prefix P]                                               write until nothing fits
fragments DIR                                                       the same, in pieces
reserve DIR                                                         as a user: some is left
inodes DIR                                                          make files until none fits
shrink DIR [--prefix P] [--only NAME]                               cut files, and let them go
hold DIR --count N --bytes N                                        keep nameless files open
scatter DIR --count N                                               make a file of blocks apart
cut DIR --left N                                                    cut it in several transactions
crowd DIR --count N --length N                                      make links until none fits
crowded DIR (the same)                                              they are all there
uncrowd DIR --seed N (the same)                                     remove them
collide DIR                                                         use names of one hash
listings DIR [--prefix P] [--only NAME]                             list what changes meanwhile
subdirectories DIR                                                  make some where many are
pace DIR OTHER --seed N --count N --limit PERCENT                   time a directory of many files
names DIR --seed N --count N                                        use names, print what happens
storm DIR --threads N --seconds N --seed N [--cold] [--failing]     use names, all at once
remount DEV DIR --threads N --count N --seed N                      read-only and back under load
rounds DIR --rounds N --writers N --seed N                          fill it, empty it
shut-down DIR --how N                                               and print what happens
shut-down-now DIR --how N                                           without more ado
shut-down-left DIR --how N                                          check what it left
generations DIR                                                     read and set them
label DIR [--set TEXT]                                              print it, or set it
handles DIR [--prefix P] [--only NAME]                              find files by their handles
handle-list DIR                                                     print the handles of all
handle-find DIR LIST                                                find them by those
readback DIR                                                        read files in every way
refused DIR [--allowed] [--prefix P] [--only NAME]                  try what is not built yet
writeback DEV DIR --fs F --options O --mib N [--own] [--lazy] ...   measure write-back
cycles DEV DIR --fs F --module FILE                                 load and unload it
images DEV DIR --fs F --count N --seed N [--own] [--image N]        try damaged volumes
copy DEVICE DEVICE                                                  copy what is on the disk
partition DISK                                                      make it its own partition 1
digest DEVICE                                                       a digest of it
space DIR                                                           print statfs
xattrs DIR OTHER --seed N --count N --block BYTES                   change attributes in both
acls DIR --seed N                                                   print what files inherit
xattr-set FILE... --name N --bytes N --letter L                     set one of each file
xattr-remove FILE... --name N                                       remove it
xattr-read FILE...                                                  read all
poke FILE [--writing]                                               use damaged attributes
behave DIR [--prefix P] [--only NAME]                               test what programs rely on
powercut DEV LOG TARGET AGAIN DIR --fs F --seed N --states N ...    cut the power, and look
powercut TARGET AGAIN DIR --replay --keep FOLDER --state N ...      look at a state again
bench PLAN MODULE [--touch]                                         measure what a plan asks for
model DEV DEV DIR DIR [FILE...] --fs F --seed N --seeds N --count N   random work beside ext4
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    match run(&command, &Args::new(words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{command}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, args: &Args) -> Result<(), Why> {
    match command {
        "populate" => populate(args),
        "verify" => {
            let params = params(args)?;
            tree::verify::verify(&args.path(0)?, &params, &tree::plan::plan(&params))
        }
        "fill" => volumes::fill(&args.path(0)?, args.bytes("bytes", "0")?),
        "manifest" => print_manifest(args),
        "foreign" => foreign::make(&args.path(0)?),
        "flags" => foreign::check_flags(&args.path(0)?, args.has("refusing")),
        "access" => access::print(&args.path(0)?),
        "many" => many::make(
            &args.path(0)?,
            args.number("seed", 1)?,
            args.number("count", 20_000)?,
        ),
        "find" => many::check(
            &args.path(0)?,
            args.number("seed", 1)?,
            args.number("count", 20_000)?,
        ),
        "add" => {
            let (seed, count) = (args.number("seed", 1)?, args.number("count", 20_000)?);
            let added = many::add(&args.path(0)?, seed, count, args.number("more", 1000)?)?;
            println!("# {added} names fit");
            Ok(())
        }
        "added" => {
            let (seed, count) = (args.number("seed", 1)?, args.number("count", 20_000)?);
            many::added_are_there(&args.path(0)?, seed, count, args.number("more", 1000)?)
        }
        "full" => {
            let mut report = report(args);
            full::run(&args.path(0)?, &mut report)?;
            report.finish()
        }
        "reserve" => full::reserve(&args.path(0)?),
        "fragments" => full::fragments(&args.path(0)?),
        "inodes" => full::inodes(&args.path(0)?),
        "crowd" => {
            let (count, length) = (args.number("count", 1000)?, args.number("length", 250)?);
            println!("{}", crowd::fill(&args.path(0)?, count, length)?);
            Ok(())
        }
        "crowded" => {
            let (count, length) = (args.number("count", 1000)?, args.number("length", 250)?);
            crowd::check(&args.path(0)?, count, length)
        }
        "uncrowd" => {
            let (count, length) = (args.number("count", 1000)?, args.number("length", 250)?);
            crowd::empty(&args.path(0)?, count, length, args.number("seed", 1)?)
        }
        "collide" => crowd::collide(&args.path(0)?),
        "listings" => {
            let mut report = report(args);
            crowd::listings(&args.path(0)?, &mut report);
            report.finish()
        }
        "subdirectories" => crowd::subdirectories(&args.path(0)?),
        "pace" => {
            let mut report = report(args);
            pace::run(
                &args.path(0)?,
                &args.path(1)?,
                args.number("count", 1000)?,
                args.number("seed", 1)?,
                args.number("limit", 100)?,
                &mut report,
            )?;
            report.finish()
        }
        "names" => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            names::write(
                &args.path(0)?,
                args.number("seed", 1)?,
                args.number("count", 3000)?,
                &mut out,
            )?;
            Ok(out.flush()?)
        }
        "storm" => {
            let storm = storm::Storm {
                threads: args.number("threads", 8)?,
                seconds: args.number("seconds", 10)?,
                seed: args.number("seed", 1)?,
                cold: args.has("cold"),
                failing: args.has("failing"),
            };
            storm.run(&args.path(0)?)
        }
        "remount" => {
            let (dev, dir) = (args.path(0)?, args.path(1)?);
            let remounts = remount::Remounts {
                dev: &dev,
                dir: &dir,
                threads: args.number("threads", 6)?,
                count: args.number("count", 10)?,
                seed: args.number("seed", 1)?,
            };
            remounts.run()
        }
        "rounds" => rounds::run(
            &args.path(0)?,
            args.number("rounds", 5)?,
            args.number("writers", 2)?,
            args.number("seed", 1)?,
        ),
        "shut-down" => given_up::run(&args.path(0)?, args.number("how", 0)?),
        "shut-down-now" => {
            let dir = std::fs::File::open(args.path(0)?)?;
            Ok(sys::volume::shut_down(&dir, args.number("how", 2)?)?)
        }
        "shut-down-left" => given_up::check(&args.path(0)?, args.number("how", 0)?),
        "generations" => given_up::generations(&args.path(0)?),
        "label" => {
            let dir = std::fs::File::open(args.path(0)?)?;
            if args.has("set") {
                return Ok(sys::volume::set_label(
                    &dir,
                    args.text("set", "").as_bytes(),
                )?);
            }
            let label = sys::volume::label(&dir)?;
            println!("{}", String::from_utf8_lossy(&label));
            Ok(())
        }
        "readback" => {
            let (files, bytes) = readback::check(&args.path(0)?)?;
            println!(
                "# {files} files, {} MiB, each read in every way",
                bytes >> 20
            );
            Ok(())
        }
        "refused" => {
            let mut report = report(args);
            refused::run(&args.path(0)?, args.has("allowed"), &mut report);
            report.finish()
        }
        "shrink" => {
            let mut report = report(args);
            shrink::run(&args.path(0)?, &mut report);
            report.finish()
        }
        "handles" => {
            let mut report = report(args);
            handles::run(&args.path(0)?, &mut report);
            report.finish()
        }
        "handle-list" => handles::print(&args.path(0)?),
        "handle-find" => handles::find(&args.path(0)?, &args.path(1)?),
        "hold" => shrink::hold(
            &args.path(0)?,
            args.number("count", 10)?,
            args.bytes("bytes", "100K")?,
        ),
        "scatter" => shrink::scatter(&args.path(0)?, args.number("count", 3000)?),
        "cut" => shrink::cut_in_steps(&args.path(0)?, args.number("left", 1)?),
        "writeback" => write_back(args),
        "bench" => {
            if args.has("touch") {
                bench::touch_memory()?;
            }
            bench::run(&args.path(0)?, &args.path(1)?)
        }
        "cycles" => cycles(args),
        "images" => images(args),
        "copy" => volumes::copy(&args.path(0)?, &args.path(1)?),
        "partition" => Ok(sys::volume::add_partition(&std::fs::File::open(
            args.path(0)?,
        )?)?),
        "digest" => volumes::digest(&args.path(0)?).map(|digest| println!("{digest:016x}")),
        "space" => {
            println!("{:?}", sys::volume::space(&args.path(0)?)?);
            Ok(())
        }
        "powercut" => power_cut(args),
        "model" => model(args),
        "xattrs" => xattrs::compare(
            &args.path(0)?,
            &args.path(1)?,
            args.number("seed", 1)?,
            args.number("count", 1000)?,
            args.number("block", 4096)?,
        ),
        "acls" => xattrs::acls(&args.path(0)?, args.number("seed", 1)?),
        "xattr-set" => xattrs::set_all(
            &args.paths(),
            args.text("name", ""),
            args.number("bytes", 1)?,
            args.text("letter", "v"),
        ),
        "xattr-remove" => xattrs::remove_all(&args.paths(), args.text("name", "")),
        "xattr-read" => xattrs::read_all(&args.paths()),
        "poke" => xattrs::poke(&args.path(0)?, args.has("writing")),
        "behave" => {
            let mut report = report(args);
            behave::run(&args.path(0)?, &mut report)?;
            report.finish()
        }
        _ => Err(format!("no such command\n{USAGE}").into()),
    }
}

fn report(args: &Args) -> report::Report {
    report::Report::new(args.text("prefix", ""), args.text("only", ""))
}

fn write_back(args: &Args) -> Result<(), Why> {
    let (dev, dir) = (args.path(0)?, args.path(1)?);
    let bench = writeback::Bench {
        dev: &dev,
        dir: &dir,
        fs: args.text("fs", "ext4rs"),
        options: args.text("options", ""),
        own: args.has("own"),
    };
    let mib = args.number("mib", 256)?;
    let mut report = report(args);
    writeback::large_file(&bench, mib, &mut report)?;
    if args.has("lazy") {
        writeback::over_and_over(&bench, &mut report)?;
    }
    writeback::background(&bench, mib / 2, &mut report)?;
    report.finish()
}

fn images(args: &Args) -> Result<(), Why> {
    let (dev, dir) = (args.path(0)?, args.path(1)?);
    let trial = images::Trial {
        fs: args.text("fs", "ext4rs"),
        dev: &dev,
        dir: &dir,
        count: args.number("count", 100)?,
        seed: args.number("seed", 1)?,
        only: args
            .has("image")
            .then(|| args.number("image", 0))
            .transpose()?,
        own: args.has("own"),
    };
    let mut report = report(args);
    trial.run(&mut report)?;
    report.finish()
}

fn cycles(args: &Args) -> Result<(), Why> {
    let (dev, dir) = (args.path(0)?, args.path(1)?);
    let module = std::path::Path::new(args.text("module", ""));
    let cycles = cycles::Cycles {
        module: (!module.as_os_str().is_empty()).then_some(module),
        fs: args.text("fs", "ext4rs"),
        dev: &dev,
        dir: &dir,
    };
    let mut report = report(args);
    cycles.run(&mut report)?;
    report.finish()
}

fn power_cut(args: &Args) -> Result<(), Why> {
    let replay = args.has("replay");
    // A run that was kept has its own volume and log.
    let (first, none) = (if replay { 0 } else { 2 }, std::path::PathBuf::new());
    let (dev, log) = if replay {
        (none.clone(), none)
    } else {
        (args.path(0)?, args.path(1)?)
    };
    let [target, again, dir] = [
        args.path(first)?,
        args.path(first + 1)?,
        args.path(first + 2)?,
    ];
    let keep = std::path::Path::new(args.text("keep", ""));
    let cuts = powercut::Cuts {
        dev: &dev,
        log: &log,
        target: &target,
        again: &again,
        dir: &dir,
        fs: args.text("fs", "ext4rs"),
        options: args.text("options", ""),
        keep: (!keep.as_os_str().is_empty()).then_some(keep),
        seconds: args.number("seconds", 5)?,
        tasks: args.number("tasks", 4)?,
        states: args.number("states", 20)?,
        only: args
            .has("state")
            .then(|| args.number("state", 0))
            .transpose()?,
        seed: args.number("seed", 1)?,
        blind: args.has("blind"),
        losses: args.has("losses"),
    };
    let mut report = report(args);
    cuts.run(&mut report)?;
    report.finish()
}

fn model(args: &Args) -> Result<(), Why> {
    let paths = [args.path(0)?, args.path(1)?, args.path(2)?, args.path(3)?];
    let keep = std::path::Path::new(args.text("keep", ""));
    let model = model::Model {
        fs: args.text("fs", "ext4rs"),
        devices: [&paths[0], &paths[1]],
        dirs: [&paths[2], &paths[3]],
        keep: (!keep.as_os_str().is_empty()).then_some(keep),
        shrink: std::time::Duration::from_secs(args.number("shrink", 0)?),
    };
    let count = args.number("count", 20_000)?;
    let mut report = report(args);
    if args.has("lies") {
        for (name, lie) in model::Lie::ALL {
            report.test(&format!("notices-{name}"), || model.notices(lie));
        }
    }
    for file in args.paths().into_iter().skip(4) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        report.test(&name, || model.replay(&file));
    }
    let first = args.number("seed", 1)?;
    let every = args.number("every", 1)?;
    for seed in (first..).step_by(every).take(args.number("seeds", 0)?) {
        report.test(&format!("seed-{seed}"), || model.random(seed, count));
    }
    report.finish()
}

fn params(args: &Args) -> Result<tree::Params, Why> {
    Ok(tree::Params {
        seed: args.number("seed", 1)?,
        files: args.number("files", 2000)?,
        bytes: args.bytes("bytes", "1G")?,
        threads: args.number("threads", 4)?,
        fragments: args.number("fragments", 3000)?,
    })
}

fn populate(args: &Args) -> Result<(), Why> {
    let params = params(args)?;
    let nodes = tree::plan::plan(&params);
    let start = Instant::now();
    tree::populate::populate(&args.path(0)?, &params, &nodes)?;
    let seconds = start.elapsed().as_secs_f64();
    let data = |node: &tree::Node| match &node.kind {
        tree::Kind::File(spec) => spec.data(),
        _ => 0,
    };
    let mib = nodes.iter().map(data).sum::<u64>() >> 20;
    println!(
        "# {} nodes, {mib} MiB of data in {seconds:.1} s",
        nodes.len()
    );
    Ok(())
}

fn print_manifest(args: &Args) -> Result<(), Why> {
    let details = manifest::Details {
        layout: args.has("layout"),
        xattrs: args.has("xattrs"),
        access: args.has("access"),
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    manifest::manifest(&args.path(0)?, details, &mut out)?;
    Ok(out.flush()?)
}
