// marked.d.ts: the used part of marked, which the build puts beside the pages.
export class Marked {
  constructor(options: {
    gfm: boolean;
    breaks: boolean;
    renderer: {
      html(token: { text: string; block?: boolean }): string;
      image(token: { text: string; href: string }): string;
      checkbox(token: { checked: boolean }): string;
    };
  });
  parse(text: string, options: { async: false }): string;
}
