//! The mistakes of the plain driver, most of which only show when something fails.

use crate::defect::defects;

defects! {
    Mistake;
    /// A device that blkid does not identify is formatted, whatever it contains.
    FormatsWhatItCannotRead = "plain/formats-what-it-cannot-read";
    /// A file system that e2fsck cannot repair is formatted again.
    FormatsWhatItCannotRepair = "plain/formats-what-it-cannot-repair";
    /// A file system that cannot be mounted is formatted again.
    FormatsWhatItCannotMount = "plain/formats-what-it-cannot-mount";
    /// A file system that cannot be grown is formatted again.
    FormatsWhatItCannotGrow = "plain/formats-what-it-cannot-grow";
    /// A failed umount is treated as successful.
    IgnoresFailedUmount = "plain/ignores-failed-umount";
    /// A umount that ends with 0 is treated as successful without a check.
    BelievesUmount = "plain/believes-umount";
    /// After a failed umount, the target is removed with everything in it.
    RemovesBelowAMount = "plain/removes-below-a-mount";
    /// A failed mount is treated as successful.
    IgnoresFailedMount = "plain/ignores-failed-mount";
    /// A failed resize2fs is treated as successful.
    IgnoresFailedResize = "plain/ignores-failed-resize";
    /// A failed copy leaves the volume empty, and is treated as successful.
    IgnoresFailedCopy = "plain/ignores-failed-copy";
    /// A repeated call treats the incomplete copy of an interrupted call as complete.
    TakesHalfACopyForAll = "plain/takes-half-a-copy-for-all";
    /// The file of a failed copy stays, each time under a new name.
    LeavesTemporaryFiles = "plain/leaves-temporary-files";
    /// The lock of a volume is not released after an error.
    KeepsLockAfterError = "plain/keeps-lock-after-error";
    /// One lock for all volumes is held while a command runs, and also blocks calls that change nothing.
    LocksEverything = "plain/locks-everything";
    /// Each attempt to stage attaches another loop device, and the devices of failed attempts stay.
    LeaksLoopDevices = "plain/leaks-loop-devices";
    /// A loop device that cannot be detached is forgotten.
    IgnoresFailedDetach = "plain/ignores-failed-detach";
    /// If no loop device is free, the loop device of another volume is used.
    TakesFirstLoopDevice = "plain/takes-first-loop-device";
    /// A volume is recorded as published before it is mounted, and a repeated call relies on the record.
    NotesPublishedTooEarly = "plain/notes-published-too-early";
    /// A volume whose formatting was interrupted is rejected forever.
    RefusesHalfFormatted = "plain/refuses-half-formatted";
    /// The record of a formatting stays after an interruption, so the volume is formatted each time.
    FormatsAgainEachTime = "plain/formats-again-each-time";
    /// A volume is forgotten before its file is removed, so the file stays if it cannot be removed.
    ForgetsBeforeRemoving = "plain/forgets-before-removing";
    /// Each attempt to create a volume creates another one, and only the last one is recorded.
    MakesAnotherEachTime = "plain/makes-another-each-time";
    /// A volume is recorded before its image is created, and no volume can be created as long as one has no image.
    NeedsEveryImage = "plain/needs-every-image";
    /// The process ends when a command fails.
    EndsOnError = "plain/ends-on-error";
    /// Errors have the code UNKNOWN.
    SaysUnknown = "plain/says-unknown";
    /// A failed command results in NOT_FOUND.
    SaysNotFound = "plain/says-not-found";
    /// The state is written into the existing file, which is empty for a while.
    WritesInPlace = "plain/writes-in-place";
    /// If the storage was unreachable once, the driver never tries again.
    StaysOffline = "plain/stays-offline";
    /// A volume that is to be deleted is treated as gone while the storage is unreachable.
    TakesOfflineForGone = "plain/takes-offline-for-gone";
    /// The answer is sent before the state is written.
    AnswersBeforeWriting = "plain/answers-before-writing";
    /// A volume is saved only when the next one is created.
    WritesOneLate = "plain/writes-one-late";
    /// Nothing of the state is made durable before the answer.
    SyncsNothing = "plain/syncs-nothing";
    /// The state is renamed into place before its contents are durable.
    SyncsNoContents = "plain/syncs-no-contents";
    /// The contents of the state are made durable, but its new name is not.
    SyncsNoDirectory = "plain/syncs-no-directory";
    /// Copied data are not made durable.
    SyncsNoCopy = "plain/syncs-no-copy";
    /// A broken connection to the storage is used forever.
    KeepsDeadConnection = "plain/keeps-dead-connection";
    /// The driver waits for the storage without a limit, and holds the lock of the volume.
    WaitsWithoutLimit = "plain/waits-without-limit";
    /// After one late reply of the storage, the driver sends no more requests to it.
    NeverForgetsTimeout = "plain/never-forgets-timeout";
    /// An unreachable storage is treated as a storage without volumes.
    ListsNothingUnreached = "plain/lists-nothing-unreached";
    /// An incomplete reply of the storage is treated as complete.
    BelievesHalfAnAnswer = "plain/believes-half-an-answer";
    /// A failed mountpoint(1) is treated as no mount.
    TakesUnreadableForUnmounted = "plain/takes-unreadable-for-unmounted";
    /// If an unmount fails once, it is never tried again.
    GivesUpOnMount = "plain/gives-up-on-mount";
    /// The record that a volume is staged is on disk, and is still trusted after a reboot.
    RemembersMounts = "plain/remembers-mounts";
    /// Staged volumes are emptied when the driver starts.
    CleansAtStart = "plain/cleans-at-start";
    /// The driver unmounts all volumes when it starts.
    UnmountsAtStart = "plain/unmounts-at-start";
    /// A file system is recorded as grown before it is grown.
    NotesGrownTooEarly = "plain/notes-grown-too-early";
    /// An e2fsck that has corrected errors is treated as failed, and the volume is rejected forever.
    TakesCorrectedForBroken = "plain/takes-corrected-for-broken";
    /// If the state cannot be written, the driver keeps it in memory only, and returns OK.
    IgnoresFailedWrite = "plain/ignores-failed-write";
}
