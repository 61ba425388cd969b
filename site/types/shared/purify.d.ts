// purify.d.ts: the used part of DOMPurify, which the build puts beside the pages.
declare const DOMPurify: {
  sanitize(
    html: string,
    options: {
      ALLOWED_TAGS: string[];
      ALLOWED_ATTR: string[];
      ALLOWED_URI_REGEXP: RegExp;
      ALLOW_DATA_ATTR: boolean;
      RETURN_DOM_FRAGMENT: true;
    },
  ): DocumentFragment;
};
export default DOMPurify;
