//! The mistakes of the plain driver, most of which only show when something fails.

use crate::defect::defects;

defects! {
    Mistake;
    /// A device that blkid does not identify is formatted, whatever is on it.
    FormatsWhatItCannotRead = "plain/formats-what-it-cannot-read";
    /// A file system that e2fsck cannot repair is made anew.
    FormatsWhatItCannotRepair = "plain/formats-what-it-cannot-repair";
    /// A file system that cannot be mounted is made anew.
    FormatsWhatItCannotMount = "plain/formats-what-it-cannot-mount";
    /// A file system that cannot be grown is made anew.
    FormatsWhatItCannotGrow = "plain/formats-what-it-cannot-grow";
    /// A umount that fails is taken for done.
    IgnoresFailedUmount = "plain/ignores-failed-umount";
    /// A umount that ends with 0 is believed, and nobody looks.
    BelievesUmount = "plain/believes-umount";
    /// The target is removed with all that is in it after a umount that failed.
    RemovesBelowAMount = "plain/removes-below-a-mount";
    /// A mount that fails is taken for done.
    IgnoresFailedMount = "plain/ignores-failed-mount";
    /// A resize2fs that fails is taken for done.
    IgnoresFailedResize = "plain/ignores-failed-resize";
    /// A copy that fails leaves the volume empty, and is taken for done.
    IgnoresFailedCopy = "plain/ignores-failed-copy";
    /// A repeated call takes the rest of an interrupted copy for the whole copy.
    TakesHalfACopyForAll = "plain/takes-half-a-copy-for-all";
    /// The file of a copy that failed stays, under a name of its own each time.
    LeavesTemporaryFiles = "plain/leaves-temporary-files";
    /// The lock of a volume is not given back after an error.
    KeepsLockAfterError = "plain/keeps-lock-after-error";
    /// One lock for all volumes is held while a command runs, also against calls that change nothing.
    LocksEverything = "plain/locks-everything";
    /// Each try to stage attaches another loop device, and those of tries that failed stay.
    LeaksLoopDevices = "plain/leaks-loop-devices";
    /// A loop device that cannot be detached is forgotten.
    IgnoresFailedDetach = "plain/ignores-failed-detach";
    /// If no loop device is free, that of another volume is used.
    TakesFirstLoopDevice = "plain/takes-first-loop-device";
    /// A volume is noted as published before it is mounted, and that is believed when the call is made again.
    NotesPublishedTooEarly = "plain/notes-published-too-early";
    /// A volume whose formatting was broken off is refused for ever.
    RefusesHalfFormatted = "plain/refuses-half-formatted";
    /// The note that a formatting has begun stays after one that was broken off, so that the volume is formatted each time.
    FormatsAgainEachTime = "plain/formats-again-each-time";
    /// A volume is forgotten before its file is removed, so that the file of one that cannot be removed stays.
    ForgetsBeforeRemoving = "plain/forgets-before-removing";
    /// Each try to make a volume makes another one, of which the last is noted.
    MakesAnotherEachTime = "plain/makes-another-each-time";
    /// A volume is noted before its image is made, and none is made any more as long as one has no image.
    NeedsEveryImage = "plain/needs-every-image";
    /// The process ends when a command fails.
    EndsOnError = "plain/ends-on-error";
    /// Errors have the code UNKNOWN.
    SaysUnknown = "plain/says-unknown";
    /// A command that fails is answered with NOT_FOUND.
    SaysNotFound = "plain/says-not-found";
    /// The state is written into the file that is there, which is empty for a while.
    WritesInPlace = "plain/writes-in-place";
    /// Once the storage could not be reached, the driver never tries again.
    StaysOffline = "plain/stays-offline";
    /// A volume that is to be deleted counts as gone while the storage cannot be reached.
    TakesOfflineForGone = "plain/takes-offline-for-gone";
    /// The answer is sent before the state is written.
    AnswersBeforeWriting = "plain/answers-before-writing";
    /// A volume is written down only when the next one is made.
    WritesOneLate = "plain/writes-one-late";
    /// Nothing of the state is made durable before the answer.
    SyncsNothing = "plain/syncs-nothing";
    /// The state is renamed into place before its contents are durable.
    SyncsNoContents = "plain/syncs-no-contents";
    /// The contents of the state are made durable, and its new name is not.
    SyncsNoDirectory = "plain/syncs-no-directory";
    /// Copied data are not made durable.
    SyncsNoCopy = "plain/syncs-no-copy";
    /// A connection to the storage that has broken is used for ever.
    KeepsDeadConnection = "plain/keeps-dead-connection";
    /// An answer of the storage is waited for without a limit, with the volume held.
    WaitsWithoutLimit = "plain/waits-without-limit";
    /// Once the storage was late, nothing is asked of it any more.
    NeverForgetsTimeout = "plain/never-forgets-timeout";
    /// A storage that cannot be reached has no volumes.
    ListsNothingUnreached = "plain/lists-nothing-unreached";
    /// An answer of the storage that was broken off is taken for a whole one.
    BelievesHalfAnAnswer = "plain/believes-half-an-answer";
    /// A mountpoint(1) that fails is taken for no mount.
    TakesUnreadableForUnmounted = "plain/takes-unreadable-for-unmounted";
    /// A mount that could not be taken away once is never tried again.
    GivesUpOnMount = "plain/gives-up-on-mount";
    /// That a volume is staged is noted on the disk, and believed after a reboot.
    RemembersMounts = "plain/remembers-mounts";
    /// Staged volumes are emptied when the driver starts.
    CleansAtStart = "plain/cleans-at-start";
    /// The driver unmounts all volumes when it starts.
    UnmountsAtStart = "plain/unmounts-at-start";
    /// A file system is noted as grown before it is.
    NotesGrownTooEarly = "plain/notes-grown-too-early";
    /// An e2fsck that has corrected something is taken for one that cannot, and the volume is refused for ever.
    TakesCorrectedForBroken = "plain/takes-corrected-for-broken";
    /// A state that cannot be written is kept in memory alone, with OK for an answer.
    IgnoresFailedWrite = "plain/ignores-failed-write";
}
