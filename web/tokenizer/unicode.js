/** The character classes of Hugging Face's `tokenizers`, as packed ranges of code points.
 *
 * Written by tests/parity/make_unicode_tables.py from tokenizers 0.23.3; do not edit. The
 * numbers are base 36 and alternate: how far the next range starts after the last one's end, and
 * how many code points it has.
 */

/** control: what BertNormalizer's clean_text removes. */
export const control = `
0 9 2 2 1 i 2n x d 1 11u 6 m 1 5c 1 1d 1 3cu 1 1ks 5 q 5 1d 5 1 a 11u8 4xs 16n 1 6x 3 1 1 3b3 1 xya
4 43z 8 h406 1 u 2o 1egw 1eke 2 1eke
`;

/** cjk: what BertNormalizer's handle_chinese_chars puts spaces around. */
export const cjk = `
a9s 534 1s g74 hkw e8 1fk0 wyo w 3ds 74 49c 85s f4
`;

/** mark: the nonspacing marks that BertNormalizer's strip_accents removes. */
export const mark = `
lc 1s 2 1 2 17 7n 5 7d 19 1 1 1 2 1 2 1 1 20 b 1c l g 1 2t 7 2 6 2 2 1 4 z 1 u r 2j b 1m 9 y 4 1 9 1
3 1 5 17 3 3r w 1j 1 1 1 4 8 4 1 3 7 a 2 t 1 1m 1 4 4 8 1 k 2 t 2 1l 1 4 2 4 2 2 3 3 1 u 2 3 1 b 2
1l 1 4 5 1 2 4 1 k 2 t 1 1m 1 2 1 1 4 8 1 8 1 b 2 u 1 1p 1 c 1 1e 1 1p 3 5 2 2 4 7 2 b 2 t 1 1m 1 2
1 6 1 5 2 k 2 t 1 1r 4 8 1 k 2 2u 1 7 3 1 1 2i 1 2 7 c 8 2q 1 2 6 1 2 b 6 22 2 r 1 1 1 1 1 1j 2 1 1
2 1 1 6 1 1 1 3 1 2 5 6 1 4 1 4 1 4 1 4 1 4 1 c 1 3 9 1 2u 4 1 6 1 2 2 2 p 2 4 3 g 4 d 1 2 2 6 1 f 1
jj 3 qa 3 t 3 t 2 u 2 1s 2 1 7 8 1 2 b 9 1 19 3 4b 1 3a 3 4 2 9 1 6 3 63 2 2 1 1m 1 1 7 1 1 1 1 2 8
6 a 2 1 1c e 1u 4 1c 1 1 5 1 1 5 1 14 9 c 2 w 4 2 2 1 3 1k 1 1 2 3 1 1 3 1m 8 2 2 48 3 1 d 1 7 4 1 6
1 3 2 5i 1i 6 4 k0 d 4 1 3 c 2da 3 3x 1 2o w fe 4 2z 2 n9w 1 4 a w 2 28 2 7k 1 3 1 4 1 p 2 4d 1 r i
1g 8 p b 1a 3 1c 1 2 4 2 1 14 1 1v 6 2 2 2 2 c 1 8 1 1b 1 1f 1 1 3 2 2 5 2 1 1 16 2 8 1 6m 1 2 1 4 1
fn4 1 kh g g g r1 1 6a 1 45 5 1ae 3 1 2 5 4 14 3 4 1 4l 2 10a 1 1i f 1k 3 1d 4 2 2 1x 3 10 5 1 1 2 5
1q 1 c 2 1g 9 b 3 2q 3 2 1 1 2 4n 1 3 8 l 2 1m 1 3 1 11 7 3 5 8u 6 1 1 4 2 1 2 6m 4 6 2 1 2 r 2 2d 8
2 1 1 2 2y 1 1 1 2 6 1 1 2t 3 2 4 1 5 gjo 5 1n 7 uw 4 f7u 2 43s 3 h 8 2 7 u 4 44 3 1iz 1j 4 1e 8 1 e
1 m 5 1 f 2sg 7 gzl5 6o
`;

/** compose: what NFD decomposes or reorders. */
export const compose = `
5c 6 1 9 1 6 2 5 2 6 1 9 1 6 2 5 1 h 2 k 2 9 3 4 1 6 4 6 3 6 2 i 2 n x 2 d 2 s g 1 6 2 b 3 2 2 10 2
2 6 e 5o 27 1 w 4 1 9 1 6 6 1 1 1 3 p 7 p 5 4 2 17 2 1 1 3 1 4 3 a 1 v 1 m 2 1 1 3 1 4 3 n 2 b 5 1l
2 d 4 2 2 2 6 2 6 2 c 2 2 47 19 1 1 1 2 1 2 1 1 20 b 7 5 10 l g 1 27 1 1 1 g 1 2 7 2 6 2 2 1 4 z 1 u
r 4g 9 y 4 1 9 1 3 1 5 17 3 3c e 1 t 15 1 7 1 2 1 7 1 g 1 3 4 3 8 2k 1 e 3 e 2 1 1 2b 1 2 1 5 1 g 1
b 3 2 1 2l 1 g 1 32 1 b 1 2 3 e 2 1i 1 1h 4 3e 1 4 1 7 2 2t 1 3 1 6 2 1 2 1 1 3g 4 3g 1 f 1 1 3 2h 3
d 4 30 2 e 4 24 2 r 1 1 1 1 1 9 1 9 1 4 1 4 1 4 1 c 1 7 6 1 1 1 4 2 5 1 2 b 1 9 1 4 1 4 1 4 1 c 1 c
1 2n 1 g 1 1 2 2a 1 jz 3 qc 1 v 1 4d 1 a 1 5n 1 3z 3 63 2 1z 1 k 8 2 1 1c e 20 1 1 1 1 1 1 1 1 1 3 1
x 1 6 1 1 1 2 2 1 2 12 9 1i 2 1m 1 b 2 1v 1 48 3 1 d 1 7 4 1 6 1 3 2 5i 1i 5 4f 1 1 4 2i 6 m 2 6 2
12 2 6 2 8 1 1 1 1 1 1 1 v 2 1h 1 7 1 1 2 4 1 e 2 6 1 j 2 3 1 8 2 2 5q d 4 1 3 c 1h 1 3 2 32 2 i 1 u
3 1g 1 4 1 2 1 n 1 1 1 q 1 2 1 2 1 1 1 m 1 1 1 a 5 2 2 2 2 6 2 2 2 2 2 y 4 1c 4 6 4 1n 2 1ip 1 eq 3
3x 1 2o w fe 6 s 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 6 2 1 2 1 2 1 2 1 2 m 1 4
2 3 1 d 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 6 2 1 2 1 2 1 2 1 2 m 1 2 4 3 1
n74 1 4 a w 2 28 2 7o 1 59 1 r i 1l 3 11 1 2n 1 c 1 6n 1 1 3 2 2 5 2 1 1 1g 1 6u 1 i 8mc 6l8 7i 2 1
1 1 2 a 1 1 1 1 2 2 3 1w 2 2y 1v 3 a d 1 5 1 1 1 2 1 2 1 9 k1 g r1 1 6a 1 45 5 1aq 1 1 1 14 3 4 1 4l
2 127 1 1k 1 q 1 1 1 e 1 d 2 1x 3 17 2 3 2 1q 1 24 1 9 1 2y 2 4y 2 29 1 e 3 o 7 3 5 5p 1 3 1 38 2 1
1 3 2 6u 2 3 2 3i 1 3a 2 37 1 103 1 fjk 5 1n 7 g2v 1 43j c 3 6 8 8 2 7 u 4 d 6 3l 3 2pn 7 1 h 2 7 1
2 1 5 1ph 7 31 7 1hh1 f2
`;

/** punctuation: what BertPreTokenizer splits off. */
export const punctuation = `
x f a 7 q 6 q 4 y 1 5 1 3 1 a 2 3 1 3 1 ji 1 8 1 cy 6 15 2 1f 1 1 1 2 1 2 1 18 2 k 2 1 2 d 1 2 2 22
4 2u 1 17 e 6h 3 1i f v 1 79 2 a 1 an 1 lf 1 2i 1 a 2 4o f 1 1 11 4 1z 1 22 5 4 2 33 6 4r 1 h0 9 47
1 h8 2 18 2 26 3 1z 2 4d 3 1 3 11 b 8p 2 60 2 3k 7 1 6 4s 7 4b 4 1n 5 1q 2 1s 8 b 1 n0 o 8 k 1 d 1 c
u 2 e 2 hl 4 t 2 u5 e 27 2 v a b7 m 1r 4 w 2 l7 4 1 2 34 1 3z 1b 1 j ce 3 4 a 2 c g 1 c 1 2q 1 2i 1
mwy 2 7h 3 2r 1 a 1 37 6 ak 4 2e 2 14 3 1 1 1d 2 1b 1 2p d g 2 3g 4 3i 2 g 2 6x 1 g2a 2 5s a m z 1 e
1 1 4 1 1 2 45 3 1 6 1 4 a 2 3 2 q 3 1 1 r 1 1 1 1 7 be 3 ik 1 1c 1 bi 1 kn 1 5j 1 v 1 7k 9 12 1 34
7 1u 7 2h 4 x6 7 31 2 1 4 3i 4 1c 2 27 5 3 1 d 1 1 3 2g 6 2z 1 f0 1 6y n 2x 3 6w 3 2lt 5 dtl 2 3p 1
1t 5 8 1 g2i 1 5wn 5
`;

/** space: white space. */
export const space = `
9 5 i 1 2s 1 q 1 4bj 1 1vj b t 2 5 1 1b 1 334 1
`;

/** letter: \p{L} of the byte-level pattern. */
export const letter = `
1t q 6 q 1b 1 a 1 4 1 5 n 1 v 1 cq 4 c e 5 7 1 1 1 3l 5 1 2 2 4 1 1 6 1 1 3 1 1 1 k 1 2b 1 3v 8 4m 1
12 2 1 6 15 1z r 4 4 19 17 z 2 1 2r 1 1 f 2 7 2 a 3 2 1 g 1 1 u t 2h b 1 o x 9 2 4 1 5 m 4 1 9 1 3 1
n p 7 b 5 o 1 6 h 16 1m 1i 3 1 i 1 7 a f g 4 8 2 2 2 m 1 7 1 1 3 4 3 1 g 1 d 2 1 3 e 2 a 1 8 6 4 2 2
m 1 7 1 2 1 2 1 2 v 4 1 1 j 3 g 9 1 3 1 m 1 7 1 2 1 5 3 1 i 1 f 2 n 1 b 8 2 2 2 m 1 7 1 2 1 5 3 1 u
2 1 3 f 1 h 1 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c m 1 1g 8 1 3 1 n 1 g 3 1 q 3 2 1 2 2 u 1 4 8 1 3 1
n 1 a 1 5 3 1 v 2 1 2 f 2 h 9 1 3 1 15 2 1 g 1 5 3 8 3 o 6 5 i 3 o 1 9 1 1 2 7 1m 1c 1 2 c 7 1m 2 1
1 1 5 1 o 1 1 1 a 1 2 9 1 2 5 1 1 l 4 w 1 1r 8 1 10 r 5 37 17 k 1 g 6 4 4 3 1 3 2 7 3 4 d c 1 h 12 1
1 5 1 2 17 1 99 1 4 2 7 1 1 1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 11 g g 2e 2 6 3 h8 2
h 1 q 5 23 6 8 7 i d j e i e d 1 3 f 1g z 1 4 1 1v 2h 7 5 2 y 1 1 5 1y a v 1d u 2 5 b 18 4 q 1i n 9
1h 2a 1 2l 1b h 8 1i u d 2 a 18 q 10 15 3 a 10 2 b 5 17 2 3 15 4 1 6 1 2 3 1 5 5c 1s 7q 2 6 2 12 2 6
2 8 1 1 1 1 1 1 1 v 2 1h 1 7 1 1 3 3 1 7 3 4 2 6 4 d 5 3 1 7 38 1 d 1 g d 2t 1 4 1 2 a 1 1 3 5 6 1 1
1 1 1 1 4 1 b 2 4 5 5 4 1 1g 2 22j 6d 6 4 3 2 c 12 1 1 5 1 2 1k 7 1 g n 9 7 1 7 1 7 1 7 1 7 1 7 1 7
1 7 28 1 d1 2 16 5 5 2 4 2e 6 3 1 2i 1 4 5 17 1 2m h w 1c g e8 534 1s h3h 1v 1a 2 7h 3 g a 2 k 1b g
v 2 1y 1d 9 2 2v 2 1v 2 2 1 1 1 8 l g 1 3 1 4 1 n t 1g e 1e 1q 6 3 1 1 2 b s a n p t 7 1b s 1 g 5 1
a a 5 1 15 n 3 1 8 k n 3 1 3 1e 1 1 3 2 2 5 2 1 1 1 o 3 2 b 7 3 c 6 2 6 2 6 9 7 1 7 1 17 1 e 6 37 t
8mc c n 4 1d 6is a6 2 2y 12 7 c 5 5 1 1 a 1 d 1 5 1 1 1 2 1 2 1 30 x a3 i 1s 2 1i 14 c 38 5 1 3r 10
q 6 q b 2h 3 6 2 6 2 6 2 3 z c 1 q 1 j 1 2 1 f 2 e y 3f at t 3 1d 1b w d k 1 8 6 12 a u 2 10 4 8 1c
4e i 10 4 10 4 14 8 1g c b 1 f 1 7 1 2 1 b 1 f 1 7 1 2 3 1g c 8n 9 m a 8 o 6 1 16 1 9 1x 6 2 1 1 18
1 2 3 1 2 n a n 9 v 1t j 1 2 a m a q 1y 1k 6 2 1s 1 f 4 1 3 1 t 16 t 3 t z 8 1 s r 1i a m a j d i 32
21 1j 1f d 1f d 10 12 s 9 n 6y 16 6 2 g 3 1n t a 1 8 m 16 i 1a l r n c 1h 1l 2 2 1 d 19 w p q 10 t 1
2 1 8 z 3 1 c 1c e 4 l 1 1 1 z i 1 p j 2 1r 7 1 1 1 4 1 f 1 a 7 1b 12 8 2 2 2 m 1 7 1 2 1 5 3 1 i 1
c 5 u a 1 1 2 1 1 12 1 1 p 1 1 1 18 1h i 4 k 3 u 1c k 2 1 1 54 1b 15 4 10 1c k 1 1n 17 d 1 1z r 11 7
55 18 38 1s v 8 2 1 2 8 1 2 1 o f 1 1 1 2m 8 2 13 g 1 1 1 s 1 a 14 7 1 l 1 b 1a j 1 i 21 5j x v 9 1
11 h 1 1d u 34 7 1 2 1 12 l 1 p 6 1 2 1 w e 1 93 j f 1 1 d 1 y 3g 1 27 pm 6e 5g 218 2p f ts h 6 p
32z 5 g7 5a1 u 1cy ft 7 v h 27 h u i 1c g 4 v l 5 j c0 19 5v 1s 3k 23 5 1 1u d 1s 2 1 1 s 4qg 8 ye
15 a 6w7 4 1 7 1 2 1 83 f 1 t 3 2 1 e 4 8 b0 1s4 2z 5 d 3 9 7 a 4me 2d 1 1z 1 2 2 1 2 2 2 4 1 c 1 1
1 7 1 1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9g 2 p 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 8 1f8 v 6 6
79 1q 42 19 a 7 g 1 8x u i 18 dg s 6c u 2 1 dr 7 1 4 1 2 1 f 1 5h 1n 1w 7 1 xg 4 1 r 1 2 1 1 2 1 1 a
1 4 1 1 1 1 6 1 4 1 1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3
1 5 1 h 3es wyo w 37e 6 66 2 4g2 e 5rl f ha 1wi f2 15u 3t7 5 38g
`;

/** number: \p{N} of the byte-level pattern. */
export const number = `
1c a 3c 2 5 1 2 3 141 a 3q a 5i a bg a 3a a 4 6 30 a 3a a 3a a 2 6 32 d 37 a 8 7 2v a 2w 7 7 j 31 a
2o a 3a a 1y k 7g a 1y a jz k oh 3 6n a 6 a m a 8c a 3k b 4l a 6 a 52 a 2e a 3q a 6 a t2 1 3 6 6 a
5i 1f 2 5 k6 1o 26 m hi u 12h 1 ll 1 p 9 e 3 9j 4 3u a u 8 1 f w a 13 f msg a 58 a 8w 6 4a a 12 a 5i
a m a 2e a ba a geu a dp 19 c 1l h 2 9h r 10 4 t 1 8 1 3q 5 5m a q6 8 p 7 13 9 23 5 m 6 4g 2 2 g 2
1a 1s 9 1g 2 u 3 23 5 2w 8 o 8 15 7 96 6 1c a 6 a 7q v 4e a 16 4 34 7 3q u 3k a 1o a 40 a 7 k 6z a
9i a 3a a ae a 2u a 6 k 24 c bo j 2l a ie a 2e t 6b a 1y a bq a 2u l tn 33 c01 a 1t2 a 2e a 3q a 1 7
em a 7a n imx a 152 k c k 30 p ut 1e 1ts a bq a dy a 6v a jw 9 3k a lz 1n 1 3 1 4 24 19 1 f qq d 25f
a
`;

/** compat: what NFKD changes but NFD does not. */
export const compat = `
4g 1 7 1 1 1 4 1 2 4 2 3 1 3 37 2 b 2 8 1 1h 1 1w 9 10 3 58 9 v 6 2 5 45 1 9 2 22 7 p 3 1 2 3 1 b1 1
6l 4 1iy 1 3j 1 14 2 1a 1 2y 1 1 1 aq 1 2en 3 1 b 1 i 1 s d 1 y 11 62 2 81 1 1 3 b 3 d 3 d 2 e 2 1 b
6 1 5 1 c 3 8 1 3 2 1 2 4 1 1 1 8 3 d 1 7 1 g 2 2 r 1 d b 1 2f 4 1 3 1 b 1 2 2 5 2 3 1 1 3 1 3 2 1 3
1 7 1 6 4 5 6 1c 9 1 4i 2 1 2 fj 3v 10h 1 2v 3 ed 2 6p 1 8f 1 2b 1 c 5y 16 1 1h 1 1 3 2o 2 2 1 2n 1
1d 2m 3 e 2o v 1 14 8 1b 1 3j 1 74 mn0 2 5u 1 3r 2 o2 4 fq8 7 c 5 8 a 11 2r x a3 i 1s 2 1i 14 d j a
m l 2 c 1 j 1 4 4 3 1 1 1 3r 4 5a 3 6 2 6 2 6 2 3 3 7 1 7 15w1 2d 1 1z 1 2 2 1 2 2 2 4 1 c 1 1 1 7 1
1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9g 2 84 2 1e 4cg 4 1 r 1 2 1 1 2 1 1 a 1 4 1 1 1 1 6 1 4 1 1 1
1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3 1 5 1 h g4 b 5 v 1 w q 2
10 1 33 3 d 18 4 9 7 2
`;

/** combining: the marks that StripAccents removes. */
export const combining = `
lc 34 7n 7 7b 19 1 1 1 2 1 2 1 1 20 b 1c l g 1 2t 7 2 6 2 2 1 4 z 1 u r 2j b 1m 9 y 4 1 9 1 3 1 5 17
3 3c e 1 x 1i 3 1 i 1 7 a 2 t 3 1k 1 1 7 2 2 2 3 9 1 a 2 t 3 1k 1 1 5 4 2 2 3 3 1 u 2 3 1 b 3 1k 1 1
8 1 3 1 3 k 2 t 3 1k 1 1 7 2 2 2 3 8 2 a 2 u 1 1n 5 3 3 1 4 9 1 14 4 1m 7 1 3 1 4 7 2 b 2 t 3 1k 1 1
7 1 3 1 4 7 2 b 2 t 3 1m 7 1 3 1 4 9 1 a 2 u 2 1y 1 4 6 1 1 1 8 i 2 1p 1 2 7 c 8 2q 1 2 6 1 2 b 6 22
2 r 1 1 1 1 1 4 2 1d k 1 2 5 b 1 10 9 1 2s k n 4 4 3 1 3 2 7 3 4 d c 1 1 a 4 jj 3 qa 3 t 3 t 2 u 2
1s w 9 1 19 3 3b 2 y 1 3a c 4 c 63 5 1l a 1 t 2 1 1c f 1t 5 1b h 12 9 c 3 u d 1k e 1c k 48 3 1 l 4 1
4 3 3 2 5i 1i 5 5 k0 x 2da 3 3x 1 2o w fe 6 2x 2 n9w 4 1 a w 2 28 2 7k 1 3 1 4 1 n 5 2g 2 1e i q i
1g 8 p d 18 4 1b e 10 1 1v e c 1 8 2 19 3 1e 1 1 3 2 2 5 2 1 1 15 5 5 2 6k 8 1 2 fn4 1 kh g g g r1 1
6a 1 45 5 1ae 3 1 2 5 4 14 3 4 1 4l 2 109 3 1h f 1k 4 19 b 1x 3 10 e 1q 1 c 3 1c e 9 3 2n c 6 1 4g c
l 4 1k 1 1 7 2 2 2 3 9 1 a 2 2 7 3 5 5c i 2x k 6j 7 2 9 r 2 2a h 2y d 2t f zn 8 1 8 2a m 1 e fg9 5
1n 7 t6 1a g 4 f7u 2 43q 5 3 6 8 8 2 7 u 4 44 3 1iz 1j 4 1e 8 1 e 1 m 5 1 f 11s 7 1 h 2 7 1 2 1 5
1ph 7 31 7 gzhx 6o
`;

/** categoryP: \p{P} of patterns. */
export const categoryP = `
x 3 1 6 1 4 a 2 3 2 q 3 1 1 r 1 1 1 z 1 5 1 3 1 a 2 3 1 3 1 ji 1 8 1 cy 6 15 2 1f 1 1 1 2 1 2 1 18 2
k 2 1 2 d 1 1 3 22 4 2u 1 17 e 6h 3 1i f v 1 79 2 a 1 3w 1 3c 1 3d 1 au 1 c 1 a7 1 2i 1 a 2 4o f 1 1
11 4 1z 1 22 5 4 2 33 6 4r 1 h0 9 47 1 h9 1 18 2 26 3 1z 2 4d 3 1 3 11 b 8p 2 60 2 3k 7 1 6 4g 2 a 7
s 3 3g 4 1n 5 1q 2 1s 8 b 1 n0 o 8 k 1 d 1 c u 2 e 2 hl 4 t 2 u5 e 27 2 v a b7 m 1r 4 w 2 l7 4 1 2
34 1 3z 1b 1 w 2 c bn 3 4 a 2 c g 1 c 1 2q 1 2i 1 mwy 2 7h 3 2r 1 a 1 37 6 ak 4 2e 2 14 3 1 1 1d 2
1b 1 2p d g 2 3g 4 3i 2 g 2 6x 1 g2a 2 5s a m z 1 e 1 1 4 1 1 2 45 3 1 6 1 4 a 2 3 2 q 3 1 1 r 1 1 1
1 7 be 3 ik 1 1c 1 bi 1 kn 1 5j 1 v 1 7k 9 12 1 34 7 1u 7 2h 4 cx 1 8u 1 4n 5 18 4 59 7 31 2 1 4 3i
4 1c 2 27 4 4 1 d 1 1 3 2g 6 2z 1 8a 2 1 2 36 5 a 2 1 1 2w 1 6y n 2x 3 s d 24 1 3m 3 70 1 7c 3 4b 1
2k 8 2b 3 1 5 2l a 5z 1 2n 5 16 2 hx 2 22 d 4v 1 vk 5 29o 2 bjv 2 3p 1 1t 5 8 1 fc 3 87 4 93 1 f5o 1
5wn 5 29f 1 ny 2
`;

/** categoryS: \p{S} of patterns. */
export const categoryS = `
10 1 6 1 g 3 v 1 1 1 r 1 1 1 z 5 1 2 2 1 1 4 2 1 3 1 u 1 v 1 cq 4 c e 5 7 1 1 1 h 39 1 e 2 34 1 3v 1
7e 3 3a 3 2 1 2 2 5q 1 a 1 j 2 6v 1 7 2 3s 1 a1 2 6 2 6t 1 3i 1 3m 8 3o 1 5r 1 15 1 5h 1 5d 3 f 1 1
3 2 6 k 1 1 1 1 1 3p 8 1 6 1 2 5 4 5h 2 kw a k3 1 a5 1 9w 1 4d y 9t a 9 9 u8 1 1 3 b 3 d 3 d 3 d 2
1x 1 d 1 13 3 d 3 j x 1r 2 1 4 1 2 a 1 1 3 5 6 1 1 1 1 1 1 4 1 b 2 4 5 5 4 1 1 1m 2 4 ag 4 t 2 73 m
b 29 26 m h4 18 1d 2 v a b7 m 1r 4 w 2 ae 2 w 1 2x 6d 6 9x 2 1a q 1 2h c 5y q g 4 1 d 2 c 1 l 2 6 2
2j 2 6r 2 4 a w 12 9 1 g v b u 8 1 f w a 13 f 8w 534 1s h3k 1j ft n 9 2 2v 2 4d 4 a 4 fx 3 69 1 e 2
fr1 1 3s h al g 3j 1 18 4 2q 1 1 3 2 1 4a 1 6 1 g 3 v 1 1 1 r 1 1 1 3l 7 1 7 d 2 8p 9 1l h 2 3 1 d 3
1 1b 19 1a2 2 gf 1 jp 2 1wv 1 1p1 t eve 4 5 1 g2e 1 31f 6o g c4 4c 38 1o 6u a 13 2 1o 5 3 m 2 7 u 4
1p l 1u 3 1 56 2f oa 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 1o e8 1j 4 1e 8 1 e 1 2 1c8 1 bz 1 1ws 1
3 1 3h 1 ch 2 7i 18 4 2s c f 2 f 1 f 1 11 n 4h 1k t d 18 4 9 7 2 e 6 4a rc 4 h 3 d 3 3b 4 2n 6 c 4 1
f c 4 1k 8 a 6 14 8 u 2 c 4 2 1q 9g c e 2 d 3 a 5 1k 7 f 2 b 6 9 7 43 1 2k
`;

/** categoryM: \p{M} of patterns. */
export const categoryM = `
lc 34 7n 7 7b 19 1 1 1 2 1 2 1 1 20 b 1c l g 1 2t 7 2 6 2 2 1 4 z 1 u r 2j b 1m 9 9 1 o 4 1 9 1 3 1
5 17 3 1n 9 16 o 1 x 1i 3 1 i 1 7 a 2 t 3 1k 1 1 7 2 2 2 3 9 1 a 2 q 1 2 3 1k 1 1 5 4 2 2 3 3 1 u 2
3 1 b 3 1k 1 1 8 1 3 1 3 k 2 m 6 1 3 1k 1 1 7 2 2 2 3 7 3 a 2 u 1 1n 5 3 3 1 4 9 1 14 5 1j 1 1 7 1 3
1 4 7 2 b 2 t 3 1k 1 1 7 1 3 1 4 7 2 b 2 f 1 c 4 1j 2 1 7 1 3 1 4 9 1 a 2 t 3 1y 1 4 6 1 1 1 8 i 2
1p 1 2 7 c 8 2q 1 2 9 b 7 21 2 r 1 1 1 1 1 4 2 1d k 1 2 5 b 1 10 9 1 2s k n 4 4 3 1 3 2 7 3 4 d c 1
1 a 4 jj 3 qa 4 s 3 t 2 u 2 1s w 9 1 19 3 1 1 39 2 y 1 3a c 4 c 63 5 1l a 1 t 2 1 1c v 1d 5 1b h 12
9 c 3 u d 1k e 1c k 48 3 1 l 4 1 6 1 2 3 5i 1s k0 x 2da 3 3x 1 2o w fe 6 2x 2 n9w 4 1 a w 2 28 2 7k
1 3 1 4 1 n 5 4 1 2b 2 1e i q i d 1 12 8 p d 18 4 1b e 10 1 1v e c 1 8 2 19 3 1e 1 1 3 2 2 5 2 1 1
15 5 5 2 6k 8 1 2 fn4 1 kh g g g r1 1 6a 1 45 5 1ae 3 1 2 5 4 14 3 4 1 4l 2 fx 4 1t 5 8t 2 27 4 1y b
1d 4 3e 3 1h f 15 1 2 2 a 4 19 b 7 1 1p 3 10 e g 2 18 1 c 3 1c e 8 4 1 2 2k c 6 1 2 1 4d c l 4 1j 2
1 7 2 2 2 3 9 1 a 2 2 7 3 5 1v 9 1 1 2 1 1 4 1 5 1 1 e 2 2a i n 1 29 k 6j 7 2 9 r 2 2a h 2y d 2t f
74 f 6t 6 1 2 2 4 1 1 1 2 3x 7 2 7 3 1 s a 14 7 1 4 8 1 9 b 1a g b9 8 1 8 2a m 1 e 3e 6 3 1 1 2 1 7
1 1 1u 5 1 2 1 5 9n 4 9 2 1 1 1c 7 3 5 n 1 44l 1 6 f 8ug i 1xc 5 1n 7 t4 1 1 1j 7 4 29 1 b 2 f57 2
3mp 1a 2 n f2 5 3 6 8 8 2 7 u 4 44 3 1iz 1j 4 1e 8 1 e 1 m 5 1 f 11s 7 1 h 2 7 1 2 1 5 2s 1 4g 7 af
1 1p 4 e4 4 72 2 kg 7 31 7 gzhx 6o
`;

/** categoryLu: \p{Lu} of patterns. */
export const categoryLu = `
1t q 2t n 1 7 x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 3 2 1 1 1 2 1 3 2 4 1 2 1 3 3 2 1 2 1
1 1 1 1 2 1 1 2 1 1 2 1 3 1 1 1 2 3 1 7 1 2 1 2 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 2 1 2 1 1 3 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 7 2 1 2 2 1 1 4 1 1 1 1 1 1 1 1 81 1 1 1 3 1 8 1 6 1 1
3 1 1 1 2 1 h 1 9 z 1 2 3 3 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 5 1 2 1 1 2 2 1f 1c 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 2 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 12 289 12
1 1 5 1 k2 2e 1oz 1 6 17 2 3 8w 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 9 8 8 6 a 8 8 8 8 6 b 1 1 1 1 1 1 1 8 8 20 4 c 4 c 4 c 5 b 4 7a 1 4 1 3 3
2 3 2 1 3 5 6 1 1 1 1 1 1 4 2 4 a 2 5 1 1p 1 22k 1c 1c 1 1 3 2 1 1 1 1 1 1 4 1 1 2 1 8 3 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 8 1 1 1 4 1 nyl
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 j 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 3r 1 1 1 1 1 1 1 1 1 1 1 1 1 3 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 a
1 1 1 1 2 1 1 1 1 1 1 1 1 4 1 1 1 2 1 1 1 3 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 5 1 5 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 4 1 1 1 2 3 1 5 1 1 1 1 1 1 1 o 1 h7v q xx 14 3s 10 4c b 1 f 1 7 1 2 1d6 1f 4d m
27u w gw0 w k2o q q q q q q 1 1 2 2 1 2 2 2 4 1 8 q q q 2 1 4 2 8 1 7 r 2 1 4 1 5 1 1 3 7 r q q q q
q q q q q q q u p x p x p x p x p x 1 3ed y
`;

/** categoryLl: \p{Ll} of patterns. */
export const categoryLl = `
2p q 1m 1 15 o 1 8 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 3 2 1 1 1 2 1 3 2 4 1 2 1 3 3 2 1 2
1 1 1 1 1 2 1 1 2 1 1 2 1 3 1 1 1 2 2 2 3 6 1 2 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 2 2 1 1 1 3 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 7 2 1 2 2 1 1 4 1 1 1 1 1 1 1 1 1x 1 r 5d 1 1 1 3 1
3 3 i 1 r z 1 2 3 3 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 5 1 1 2 1 2 2 1f 1c 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1c 15 287 17 2 3
l4 6 1oi 9 1 1 39 18 1r d 1 y 2u 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 9 8 6 a 8 8 8 8 6 a 8 8 8 8 e 2 8 8 8 8 8 8 5 1 2 6 1 3 3 1 2 8 4 2 2 8 8 a
3 1 2 7m 1 3 2 3 1 r 1 4 1 4 1 2 2 8 4 4 1 1h 1 23v 1c 1 1 3 2 1 1 1 1 1 1 4 1 1 2 1 6 5 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 7 1 1 1 4 1 c
12 1 1 5 1 nwz 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 j 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 3r 1 1 1 1 1 1 1 1 1 1 1 1 3 1 1 1 1 1 1
1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
1 1 1 1 1 1 1 8 1 1 1 1 2 1 1 1 1 1 1 1 1 1 4 1 1 1 2 1 1 3 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
5 1 5 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 4 1 1 1 2 1 3 1 1 1 1 1 1 1 1 1 1 1 q 1 3 1 mt 17 5 9 7 28 fnk 7
c 5 tl q y5 14 3s 10 4b b 1 f 1 7 1 2 1dv 1f 3h m 27u w gw0 w k2i q q 7 1 i q q q 4 1 1 1 7 1 b q q
q q q q q q q q q q q q q q q s s p 1 6 q p 1 6 q p 1 6 q p 1 6 q p 1 6 1 1 1f8 a 1 k 6 6 1yv y
`;

/** categoryLt: \p{Lt} of patterns. */
export const categoryLt = `
cl 1 2 1 2 1 12 1 5ud 8 8 8 8 8 c 1 f 1 1b 1
`;

/** categoryLm: \p{Lm} of patterns. */
export const categoryLm = `
j4 i 4 c e 5 7 1 1 1 3p 1 5 1 da 1 6e 1 4k 2 7h 2 4 1 v 1 9 1 3 1 4g 1 4n 1 yc 1 3j 1 fp 1 1cq 1 2z
1 gz 1 cw 6 4u 1r d 1 y 11 j5 1 d 1 g d 2cf 2 6p 1 5b 1 d1 1 17 5 5 1 2p 2 2l 3 lxy 1 yq 6 7i 1 36 1
s 2 3d 9 28 1 n 1 2x 3 3 2 d1 1 m 1 3t 1 30 1 l 2 2v 4 9 1 gli 1 19 2 1k0 6 1 16 1 9 13n 1 w 1 ij4 4
e4 3 14 2 fa d 1s 2 1 1 cng 4 1 7 1 2 9ip 1q 5l 7 q5 1 v3 1
`;

/** categoryLo: \p{Lo} of patterns. */
export const categoryLo = `
4q 1 f 1 74 1 4 4 5s 1 mz r 4 4 19 w 1 a z 2 1 2r 1 1 o 2 a 3 2 1 g 1 1 u t 2h b 1 o x l m 16 p 7 b
5 o 1 6 h 15 1n 1i 3 1 i 1 7 a g f 4 8 2 2 2 m 1 7 1 1 3 4 3 1 g 1 d 2 1 3 e 2 a 1 8 6 4 2 2 m 1 7 1
2 1 2 1 2 v 4 1 1 j 3 g 9 1 3 1 m 1 7 1 2 1 5 3 1 i 1 f 2 n 1 b 8 2 2 2 m 1 7 1 2 1 5 3 1 u 2 1 3 f
1 h 1 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c m 1 1g 8 1 3 1 n 1 g 3 1 q 3 2 1 2 2 u 1 4 8 1 3 1 n 1 a 1
5 3 1 v 2 1 2 f 2 h 9 1 3 1 15 2 1 g 1 5 3 8 3 o 6 5 i 3 o 1 9 1 1 2 7 1m 1c 1 2 c 6 1n 2 1 1 1 5 1
o 1 1 1 a 1 2 9 1 2 5 n 4 w 1 1r 8 1 10 r 5 37 17 k 1 g 6 4 4 3 1 3 2 7 3 4 d c 1 35 95 1 4 2 7 1 1
1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 11 g 35 h8 2 h 1 q 5 23 6 8 7 i d j e i e d 1 3 f
1g 14 1 1v z 1 1h 7 5 2 y 1 1 5 1y a v 1d u 2 5 b 18 4 q 1i n 9 1h 4w 1b h 8 1i u d 2 a 18 q 10 15 3
a u 35 4 1 6 1 2 3 1 u2 4 2d3 1k o n 9 7 1 7 1 7 1 7 1 7 1 7 1 7 1 7 fb 1 1h 1 4 2e 8 1 1 2i 4 1 5
17 1 2m h w 1c g e8 534 1s g7p 1 vr 1v 14 8 7g 4 g a 2 1u 1 1d 1y 4p 1 2v 1 3 7 1 3 1 4 1 n t 1g e
1e 1q 6 3 1 1 2 b s a n p t 7 1b 19 5 2 9 a 5 1 15 n 3 1 8 k g 1 6 3 1 3 1e 1 1 3 2 2 5 2 1 1 1 o 2
3 b 7 1 e 6 2 6 2 6 9 7 1 7 41 z t 8mc c n 4 1d 6is a6 2 2y 1v 1 1 a 1 d 1 5 1 1 1 2 1 2 1 30 x a3 i
1s 2 1i 14 c 38 5 1 3r 2x a 1 19 2 v 3 6 2 6 2 6 2 3 z c 1 q 1 j 1 2 1 f 2 e y 3f at t 3 1d 1b w d k
1 8 6 12 a u 2 10 4 8 3k 26 2q 14 8 1g 2k 1g c 8n 9 m a 8 48 6 2 1 1 18 1 2 3 1 2 n a n 9 v 1t j 1 2
a m a q 1y 1k 6 2 1s 1 f 4 1 3 1 t 16 t 3 t z 8 1 s r 1i a m a j d i 32 21 53 10 12 4 1 1 8g 16 6 2
g 3 1n t a 1 8 m 16 i 1a l r n c 1h 1l 2 2 1 d 19 w p q 10 t 1 2 1 8 z 3 1 c 1c e 4 l 1 1 1 z i 1 p
j 2 1r 7 1 1 1 4 1 f 1 a 7 1b 12 8 2 2 2 m 1 7 1 2 1 5 3 1 i 1 c 5 u a 1 1 2 1 1 12 1 1 p 1 1 1 18
1h i 4 k 3 u 1c k 2 1 1 54 1b 15 4 10 1c k 1 1n 17 d 1 1z r 11 7 55 18 5v 8 2 1 2 8 1 2 1 o f 1 1 1
2m 8 2 13 g 1 1 1 s 1 a 14 7 1 l 1 b 1a j 1 i 21 5j x v 9 1 11 h 1 1d u 34 7 1 2 1 12 l 1 p 6 1 2 1
w e 1 93 j f 1 1 d 1 y 3g 1 27 pm 6e 5g 218 2p f ts h 6 p 32z 5 g7 5a1 u 1cy ft 7 v h 27 h u i 1c 1f
l 5 j c3 14 b9 23 5 1 4v 4qg 8 ye 15 a 6wn 83 f 1 t 3 2 1 e 4 8 b0 1s4 2z 5 d 3 9 7 a 6sw 1 dx 19 x
1 8x u i 18 dg r 6d u 2 1 dr 7 1 4 1 2 1 f 1 5h 117 4 1 r 1 2 1 1 2 1 1 a 1 4 1 1 1 1 6 1 4 1 1 1 1
1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3 1 5 1 h 3es wyo w 37e 6 66
2 4g2 e 5rl f ha 1wi f2 15u 3t7 5 38g
`;

/** categoryNd: \p{Nd} of patterns. */
export const categoryNd = `
1c a 17q a 3q a 5i a bg a 3a a 3a a 3a a 3a a 3a a 3a a 3a a 3a a 3a a 2o a 3a a 1y a 7q a 1y a 1fq
a 12 a 8c a 3k a 4m a 6 a 52 a 2e a 3q a 6 a r7q a iu a 12 a 5i a m a 2e a ba a geu a 13a a 1om a 6
a m4 a 3k a 1o a 40 a 7q a 9i a 3a a ae a 2u a 6 k 24 a bq a 2u a ie a 2e a 6u a 1y a bq a d06 a 1t2
a 2e a 3q a eu a iuu a 250 1e 1ts a bq a dy a 6v a np a 3o6 a
`;
export const scriptHan = `
96o q 1 2h c 5y 1b 1 1 1 p 9 e 4 qs 534 1s g74 hkw a6 2 2y n48 2 c 2 sge wyo w 37e 6 66 2 4g2 e 5rl
f ha 1wi f2 15u 3t7 5 38g
`;
export const scriptHiragana = `
9j5 2e 6 3 23q9 7z i 1 t 3 crx 1
`;
export const scriptKatakana = `
9lt 2i 2 3 6o g 5s 1b 1 2g 14b2 a 1 19 ytu 4 1 7 1 2 1 1 7z 3 1e 1 e 4
`;
export const scriptHangul = `
3cw 74 5ym 2 75 2m 35 v 1t v nhd t hv 8mc c n 4 1d 7tw v 3 6 2 6 2 6 2 3
`;
export const scriptBopomofo = `
kq 2 93t 17 34 w
`;
export const scriptLatin = `
1t q 6 q 1b 1 f 1 5 n 1 v 1 ch 13 5 55n 12 6 1d 5 4 5 d 1 1y 1t 74 a9 1 d 1 g d 3x 2 6 1 r 1 h 15
253 w o82 2u 3 1v 2 2 1 1 1 8 l e mo 17 1 9 1 4 fpy 7 t6 q 6 q 1lx 6 1 16 1 9 16it v 6 6
`;
export const scriptCyrillic = `
sg 3p 2 4p 4ls b 4g 1 24 1 38n w nr4 2o ham 2 18n4 1q x 1
`;
export const scriptGreek = `
og 4 1 3 2 4 1 1 4 1 1 1 1 3 1 1 1 k 1 1r e g 4yu 5 1e 5 4 5 2c 1 8w m 2 6 2 12 2 6 2 8 1 1 1 1 1 1
1 v 2 1h 1 f 1 e 2 6 1 j 2 3 1 9 87 1 rb2 1 gyi 27 h 1 155r 1y
`;
export const scriptArabic = `
16o 5 1 6 1 e 1 3 1 w 1 a b q 1 30 1 y 28 1c 6o v 1 2 5 23 1 t 1bv4 37 g a3 2 28 2 1i 7 1 w g 34 5 1
3r 31f v 1v 3 1j 4 181s 4 1 r 1 2 1 1 2 1 1 a 1 4 1 1 1 1 6 1 4 1 1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1
1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3 1 5 1 h 1g 2
`;
export const scriptHebrew = `
13l 1j 8 r 4 6 1cfc q 1 5 1 1 1 2 1 2 1 a
`;
export const scriptThai = `
2rl 1m 5 s
`;
export const scriptDevanagari = `
1s0 29 4 f 2 q vhc w mio a
`;
export const scriptBengali = `
1vk 4 1 8 2 2 2 m 1 7 1 1 3 4 2 9 2 2 2 4 8 1 4 2 1 5 2 p
`;
export const scriptTamil = `
29u 2 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c 4 5 3 3 1 4 2 1 6 1 e l 1ih1 1e d 1
`;
export const scriptTelugu = `
2dc d 1 3 1 n 1 g 2 9 1 3 1 4 7 2 1 3 2 1 2 4 2 a 7 9
`;
export const scriptGeorgian = `
3a8 12 1 1 5 1 2 17 1 4 2a8 17 2 3 37k 12 1 1 5 1
`;
export const scriptArmenian = `
10x 12 2 1e 2 3 1chv 5
`;
export const scriptKhmer = `
4n4 2m 2 a 6 a di w
`;
export const scriptLao = `
2v5 2 1 1 1 5 1 o 1 1 1 n 2 5 1 1 1 7 1 a 2 4
`;
export const scriptMyanmar = `
35s 4g u9s v 2p w le8 k
`;
export const scriptEthiopic = `
3k0 21 1 4 2 7 1 1 1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 2 w 3 q 546 n 9 7 1 7 1 7 1 7
1 7 1 7 1 7 1 7 opu 6 2 6 2 6 9 7 1 7 1qk1 7 1 4 1 2 1 f
`;

/** wordOfPatterns: \w of patterns, but for \p{L}, \p{M} and \p{Nd}. */
export const wordOfPatterns = `
2n 1 2a 2 5 1 2 3 4dr 3 1u6 2 j 1 7f z 2 4 ml 1g 271 1 p 9 e 3 nfv a h8j 2 o 3 6n 1 e8 1h cs 1 8 1
3q 5 6cq 33 14g1 q 6 q 6 q
`;

/** wordOfWhitespace: \w of the pre-tokenizer Whitespace, but for the same. */
export const wordOfWhitespace = `
2n 1 4ge 3 1sr 2 1d 2 j 1 7f z 2 4 ml 1g 271 1 p 9 e 3 nfv a h8j 2 o 3 6n 1 e8 1h cs 1 8 1 3q 5 6cq
33 14g1 q 6 q 6 q
`;
