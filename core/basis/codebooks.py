"""The codebooks of the iq types of GGUF: sets of points whose numbers the blocks store.

A point has several coordinates, each a code below `levels`. ggml numbers the points of a codebook
in ascending order, the first coordinate being the lowest digit (the tables `iq2xxs_grid` to
`iq1s_grid` of ggml-common.h). So a codebook is the set of its points. It is written as one bit for
each possible point, deflated, in base 85. `tests/core/basis/test_codebooks.py` compares it with
the reference.
"""

from __future__ import annotations

import base64
import zlib
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt


class Codebook:
    """A table of codes; coordinate j of point n is code number n * dims + j.

    name: ggml's name of the table. levels: the number of codes. dims: coordinates of a point.
    """

    def __init__(self, name: str, levels: int, dims: int, text: str) -> None:
        self.name, self.levels, self.dims, self._text = name, levels, dims, text

    @cached_property
    def codes(self) -> npt.NDArray[np.int16]:
        """All codes in order."""
        stored = zlib.decompress(base64.b85decode(self._text), -zlib.MAX_WBITS)
        points = np.flatnonzero(np.unpackbits(np.frombuffer(stored, "u1"), bitorder="little"))
        digits = points[:, None] // self.levels ** np.arange(self.dims) % self.levels
        return digits.astype(np.int16).reshape(-1)

    @property
    def bits(self) -> int:
        """Bits of a code in `words`: 2 or 4, so that none is cut by the end of a word."""
        return 2 if self.levels < 5 else 4

    @property
    def words(self) -> npt.NDArray[Any]:
        """The codes packed in 32-bit words, the first in the lowest bits."""
        codes = self.codes.reshape(-1, 32 // self.bits).astype(np.uint32)
        shifts = np.arange(codes.shape[1], dtype=np.uint32) * np.uint32(self.bits)
        packed: npt.NDArray[Any] = np.bitwise_or.reduce(codes << shifts, axis=1)
        return packed


iq2_xxs = Codebook(
    "iq2_xxs",
    3,
    8,
    "1;N3I13?f3Fg29_ZJ5ia1~!2GIR8{m`u&~XKKIIbEK)}yyxaRVCw)`PXL%XQJ?S}w5FiV1va9lyS*-yRuxUzQv8V<3j8"
    "J?51`19X^8vfy1<=bBiYNd|1q1*v;N9o$&WTmzp`|r+4c3wc41g0mAg~i4h<#qjFa!*s06GjnU?3X=C?EhX!%!$tEPMe"
    "tAOHXZ005wuP^1C~z<I1f5G+v!1z-RefXoJrLIDG!27mzo01E~HK(GV@5C8-K001B$008h0",
)

iq2_xs = Codebook(
    "iq2_xs",
    3,
    8,
    "1;Igz!$1%OFctLNJ7E8(2Qqgr#Q*=wO7Hvry=UJizxRF4?iIhko?Q~pd-i?jD$m(gs+g@8!@TQrRocvoVw$Kx=lA|SXU"
    "~e?U(Y6w=VJ(-vz>G?n}AUStfhwH0}3$UeS0=hPn*_gg5tYPz@Qo}0`yK1t$-HN@Qvp^`(2-_JZD?+HM27TbDvzL#Yz{"
    "9#5A}{CqXsaU;sR4_ljb6Szyp$R;u)n4W^;dRE-%3Jpq7WHt7}*0JK760F(|i01X5bpwNxESMKug+)-T+g^7Lrv@sL{L"
    "qX_L<e~}yg|6xqB|<a;P=+sd0~#(60165MG#XB-KwuhkMI#CW0{~zs<ACV`7FZDZ2L",
)

iq2_s = Codebook(
    "iq2_s",
    3,
    8,
    "ZIMB$Wibc^OE7Z-W<LgA<`Lrlx6*^$+y8yKogS<lD^-=XYP4RJdzH80CvBI~yX{(4HO|Ui<yC&tqLg&qMvUrJX(G`|KW"
    "PylZq0z;ROYHN(ofZ@(aPCAr#4*K>jyYmU7$B{#ULv6q=mqZ4Ac}u0ZxvbO{H`8jCQw-RDs5){5P-zP0+jCoox^>6aWk"
    "~01aVRt*YUl+^gEta1Kq^4N+C6a<9pa_Iw)#nBPc+lNJ*sxDmi!HLCn1|D5c=`_>nbr#xI>AbbH00|@x6(b6@H7>`3k1"
    "w{bKZ=f0Wx&VxAj|90|-cf*vvAUmbQ&_kBB>H%^IMw%>w4alOZR`g=g(g6RfV^~t79gwa+3L<V<7o&${KsLpzh}q9<az"
    "~OO?Lu%w_^Y*_k#h`aNr~41C)3i{<@iXi^@Y&2yuBd{Q&",
)

iq3_xxs = Codebook(
    "iq3_xxs",
    8,
    4,
    "1;H_H0x=K(z}eNVWL;$ndW#C>6-SYt{K%q0ydq_unVIXSv$!99>zv}6{qeG1y&w#GZub|Zz+&>lkd8jCJLqh1bOx$Lo="
    "!IixH!oLpalB(&cat`@Q!}<jzwO;1<PRAk_m8}EMy<Vsuuag5sOmN0K}#qiiPQ9z#z=+*Bihjc6iuWn2;08AOKbiP$cn"
    "ivM?2@U?AR5MFI$z3QSKEiDbis2f)OF0t1Ewf1wnd0*Y0{G6<wZn*ad-{{",
)

iq3_s = Codebook(
    "iq3_s",
    8,
    4,
    "1;IgT6j2laz<Q6@@TXV5hY`1(&IoZ%(UD}KZh|0QXA&YL*-h{Oq7lJd(yG7T&fA}Hcz%2SxO7YX{<uspqfJ|ePklHp@v"
    "yB;ik<8B%i7jaD*48BGx7Fy_~It(^OTz$T*k{(n>p%vb2p`mi=FXmA~!imIJv<%<eVyAzdj9z;rM=d+;1y+Hs0og?YrE"
    "K6{|a&eX{Ra$7tfaWKMIg(SrI{hacJU&_^MzqGBh==_#IOt$nCelN{#it7auJ8fKX4R2kxath2T-o@I+;MIVO+2K^Z1P"
    "l=-G1ZScpHI-AX{ZLt`$abl5A4fgswiUHPt&Binr+|Zz5N^>az2=JODZs2L8#-Y|zzCcSYxGjtU0{2eAu0A6OA7)@p-2"
    "e8e*",
)

iq1_s = Codebook(
    "iq1_s",
    3,
    8,
    "EmA>CoJSabcdFraOl4y~L2`QctFhBr5$i4KWszN2^kPEt2RzxdNXa=(J}0~Bm)R6TAha}>aWKg^4Xg1`wx6&8PgZ(p>8"
    "%H8J%qX*0$v&n#LTX}&Ajlu&-1*`bL~P@H*DrIRz7ogN!#-%DXPy$iprG>BmIUcN=E^e`9PX<%ku|*5Mto|zA{(}s6v{"
    "|M**&<@CSp543nr%)tPHp$xUn<(&He<oVU2Yjwl2KF5v~ag!p6pC3Cdfyl0#K(#^w8wxxzzakl&C&_fnOOipK9F$6jLx"
    "BWb(qJ`zsveyFRTu?ZoXrNNKS~ti(c9*E8=xUH*2_MZzOk&Ha#8erfvWu39pCs19dkQNh=qfZYa~UeRPZek-ab+s%50="
    "HLc*e*}py3y~DO|SV-PfQvG7+;HD5xf;vmyO9HL|$#*Rw`r$vq7J8x37PE2&y52`$mn&Tlrh>pz-*9Rmi^r9g>kSSvD<"
    "sA-<HTiLrqYl;>%7aa>L)9mc=YG?0t(M^8WzIAx~-|d&LzRC8!c>Br8%kkskgMW0K_wAvY$4xh=nkU)V!JVXUVPf&f@z"
    "o*(%ee1{fhozK(y!{?10}%1{p2H1i13y6ev3VAYqQIeFTbDsee)o%@{@i~jQsJW4|w+ugt-+`{$dtS*UUgN3feBP<)|D"
    "ERd}v?DSHzBTRz-Nx!+*7HaTLZWMfDHEne44E$<T`uJ(800+zd|0Zk*JQFl3dDHGsbRKY=S;Xb8`kA?`m^?IYhxC|63@"
    "m!#QwUouCJt$hJv$@S+dG$@x(-pD!vzdC8a2A?yeIXQyd0+G$yJjq6o{Ww`4V|XUdlg+f1GApt6Ucv9{y*jZP-*r2hyW"
    "mP@r*i_fvOIOg9y&eRl419tfw#?!&LARhDor@x(jpf0R",
)
