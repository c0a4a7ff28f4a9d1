// Azure Files and blobs as their own libraries for JavaScript use them; tells what came as JSON.
// Arguments: the folder where the libraries are installed, the server's URL, an account and its key.

import { createRequire } from "node:module";
import { join } from "node:path";

const [folder, url, account, key] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));
const files = require("@azure/storage-file-share");
const blobs = require("@azure/storage-blob");
const once = { retryOptions: { maxTries: 1 } };
const told = {};

const refused = async (work) => {
  try {
    await work();
    return null;
  } catch (error) {
    return [error.statusCode, error.code];
  }
};

const all = async (items, of) => {
  const found = [];
  for await (const item of items) found.push(of(item));
  return found.sort();
};

const text = async (answer) => {
  let read = "";
  for await (const piece of answer.readableStreamBody) read += piece;
  return read;
};

const shareService = new files.ShareServiceClient(
  `${url}/${account}`,
  new files.StorageSharedKeyCredential(account, key),
  once,
);
const share = shareService.getShareClient("js-files");
await share.create({ metadata: { team: "a" } });
told.twice = await refused(() => share.create());
told.share = (await share.getProperties()).metadata;
told.shares = await all(shareService.listShares({ prefix: "js-" }), (item) => item.name);
const directory = share.getDirectoryClient("in");
await directory.create();
const file = directory.getFileClient("data.csv");
const headers = {
  fileContentType: "text/csv",
  fileContentLanguage: "de",
  fileContentDisposition: "inline",
  fileCacheControl: "max-age=60",
};
await file.uploadData(Buffer.from("1,2,3"), { fileHttpHeaders: headers, metadata: { run: "7" } });
const shown = await file.getProperties();
told.file = [
  shown.contentLength,
  shown.contentType,
  shown.contentLanguage,
  shown.contentDisposition,
  shown.cacheControl,
  shown.metadata,
];
told.range = await text(await file.download(2, 3));
await file.setMetadata({ run: "8" });
await file.setHttpHeaders({ fileContentType: "text/plain" });
await file.resize(3);
const changed = await file.getProperties();
told.changed = [changed.contentLength, changed.contentType, changed.metadata];
told.listed = await all(directory.listFilesAndDirectories(), (item) => item.name);
// `rename` of this library leaves the account out of an address of this form, and so names another share.
const copy = directory.getFileClient("copy.csv");
await copy.startCopyFromURL(file.url);
told.copied = await text(await copy.download());
await file.delete();
await copy.delete();
told.gone = await refused(() => file.getProperties());
await directory.delete();

const blobService = new blobs.BlobServiceClient(
  `${url}/${account}`,
  new blobs.StorageSharedKeyCredential(account, key),
  once,
);
const container = blobService.getContainerClient("js-blobs");
await container.create();
told.containers = await all(blobService.listContainers({ prefix: "js-" }), (item) => item.name);
const blob = container.getBlockBlobClient("in/data.csv");
const type = { blobContentType: "text/csv" };
await blob.upload("1,2,3", 5, { blobHTTPHeaders: type, metadata: { run: "7" } });
const { etag, contentType, metadata } = await blob.getProperties();
told.blob = [contentType, metadata, await text(await blob.download(2, 3))];
await blob.setMetadata({ run: "8" });
const unchanged = { conditions: { ifMatch: etag } };
told.stale = [
  await refused(() => blob.upload("4", 1, unchanged)),
  await refused(() => blob.setMetadata({}, unchanged)),
  await refused(() => blob.delete(unchanged)),
];
told.known = await refused(async () =>
  blob.getProperties({ conditions: { ifNoneMatch: (await blob.getProperties()).etag } }),
);
await blob.uploadData(Buffer.alloc(3 << 20), { blockSize: 1 << 20, maxSingleShotSize: 1 << 20 });
told.blobs = await all(container.listBlobsFlat(), (item) => [item.name, item.properties.contentLength]);
told.paged = await refused(() => container.getPageBlobClient("pages").create(512));
await blob.delete();
await container.delete();
await share.delete();
console.log(JSON.stringify(told));
