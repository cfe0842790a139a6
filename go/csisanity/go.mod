module github.com/OWNER/csi-sanity/go/csisanity

go 1.19
