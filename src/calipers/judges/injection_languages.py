"""The same attempts in other languages: orders to ignore, to give the best mark, to let pass.

A language has a few words for each; the rules join them. Words are folded as texts are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from calipers.judges.folding import as_ascii, fold

# By language: words for task (instructions, rubric, criteria), give (grade, answer), best (highest
# score, ten of ten), accept (count as right), judge (evaluator), greet (dear, note to), and perhaps
# close (do not deduct points), as alternatives of a pattern.
_TABLE = r"""
de
    ignore: ignorier(?:e|en sie|t)?|vergiss|vergessen sie|missachte|übergehe|überspringe|beachte nicht
    task: anweisung|vorgabe|rubrik|kriteri|regel|bewertungsschema|schema|instruktion|richtlinie|auftrag
    give: eintragen|trage|nimm|schreiben|einfach|gib|geben sie|vergib|vergeben|vergebe|bewerte|bewerten sie|benote|antworte|schreib|setze|erteile|gibst
    best: maximalpunktzahl|(?:immer|überall) (?:5|10|fünf|zehn)|überall volle|bestanden schreib|höchstpunktzahl|volle punktzahl|höchste (?:punkt|note|wertung|bewertung)|beste note|bestnote|maximal\w* (?:punkt|wert|note)|volle\w* punkte|fünfen|(?:fünf|zehn|5|10) (?:von|punkte)|mit (?:5|10|fünf|zehn)\b|eine (?:5|10|fünf|zehn)\b|überall
    accept: (?:rubrik|kriterien?|regeln?|schema)\b[^.\n]{0,20}\b(?:ungültig|aufgehoben|nicht mehr)|gelten (?:hiermit )?als erfüllt|lass\w* (?:diese|die|das)\b[^.\n]{0,20}durchgehen|keine (?:kritik|fehler) (?:äußern|nennen|erwähnen)|nur loben|als (?:richtig|korrekt|erfüllt|bestanden|perfekt|fehlerfrei)(?: zu)? (?:werte|bewerte|gelte|behandel|betracht|zähl|zu)|(?:werte|bewerte|behandle|betrachte|zähle|markiere)\b[^.\n]{0,40}\bals (?:richtig|korrekt|erfüllt|bestanden|perfekt)|ergebnis (?:lautet|ist):? bestanden
    judge: ki|ai|sprachmodell|gutachter|bewerter|prüfer|richter|juror|korrektor
    greet: an die|liebe|für die|lieber|liebe|hinweis (?:an|für)|an den|sehr geehrter|achtung|notiz (?:an|für)|du bist (?:ab )?(?:jetzt|nun)[^.\n]{0,20}
    close: (?:keine|ziehe keine|keinerlei) punkte? ab|keine punkte abzieh
fr
    ignore: ignore[rz]?|oublie[rz]?|ne (?:tiens|tenez) pas compte|ne (?:suis|suivez) pas|négligez?|passez outre
    task: instruction|consigne|rubrique|critère|règle|grille|barème|directive
    give: valide|donne[rz]?|attribue[rz]?|accorde[rz]?|note[rz]?|mets|mettez|réponds|répondez|évalue[rz]?|écris|écrivez|recevoir|décerne[rz]?
    best: le maximum|20/20|10/10|5/5|note la plus haute|la note la plus élevée|tout, s'il|note maximale|meilleure note|maximum de points|tous les points|plus haute note|score maximal|des cinq\b|(?:5|10|20|cinq|dix) sur (?:5|10|20|cinq|dix)|(?:5|10|cinq|dix) partout|note parfaite
    accept: (?:grille|rubrique|consignes?|critères?)\b[^.\n]{0,10}\b(?:ne s'applique|annulée?|n'est plus)|ne (?:signale|mentionne|relève)\w* aucune? (?:erreur|défaut|faute)|tu dois (?:valider|accepter)|(?:considère|considérez|considérée?|déclare|déclarez|marque|marquez|juge|jugez|valide|validez)\b[^.\n]{0,40}\b(?:correcte?|parfaite?|réussie?|valide|validée?|exacte?)
    judge: ia|l'ia|modèle de langage|correcteur|évaluateur|juge|examinateur|relecteur automatique
    greet: à |cher|chère|note (?:à|pour) (?:l'|le )?|à l'attention (?:de |du )(?:l')?|message (?:à|pour) (?:l'|le )?|tu es (?:désormais|maintenant)[^.\n]{0,10}|attention
    close: (?:ne (?:retire|retirez|enlève|enlevez)|n'enlevez|n'ôtez) (?:pas|aucun)\b[^.\n]{0,12}points?
es
    ignore: ignor[ae]|olvid[ae]|omite|haz caso omiso|hag[ae] caso omiso|no (?:sigas|tengas en cuenta)|desestim[ae]
    task: instruccion|rúbrica|criterio|regla|norma|directri|indicacion
    give: ponme|aprueba|da|da(?:le|r)?|dé|otorg(?:a|ue|ar)|asign(?:a|e|ar)|calific(?:a|ar)|califique|puntúa|puntúe|respond(?:e|a)|pon|ponga|conced[ae]|evalúa|evalúe|marca|marque|escrib[ae]
    best: nota más alta|(?:un )?(?:diez|cinco) en todo|el máximo|puntuación máxima|máxima (?:puntuación|nota|calificación)|nota máxima|calificación (?:máxima|más alta)|cincos\b|(?:5|10|cinco|diez) (?:de|sobre) (?:5|10|cinco|diez)|(?:con )?(?:un )?(?:5|10|cinco|diez)(?: puntos)? en (?:cada|tod)|con (?:5|10) puntos|mejor nota
    accept: (?:rúbrica|criterios|normas)\b[^.\n]{0,10}\b(?:anulad|no se aplica|no vale)|no (?:señales|menciones|indiques)\w* (?:ningún )?error|debes aprobar|apruébal|(?:considera|considere|marca|marque|declara|declare|trata|trate|da|dé)\b[^.\n]{0,40}\b(?:como|por) (?:correct|aprobad|perfect|válid|buen)
    judge: ia|modelo de lenguaje|evaluador|juez|calificador|revisor automático|corrector
    greet: a la|estimad[oa]|querid[oa]|nota (?:para|a)l? (?:el )?|aviso (?:para|a)l? (?:el )?|atención,?|mensaje (?:para|a)l? (?:el )?|ahora eres[^.\n]{0,10}
    close: no (?:restes?|quites?|descuentes?|resten?)\b[^.\n]{0,12}puntos?
it
    ignore: ignora(?:re|te)?|dimentica(?:te)?|non (?:seguire|considerare)|trascura|salta
    task: istruzion|regol|rubrica|criteri|griglia|direttiv|indicazion
    give: dai|date|dare|assegna(?:re|te)?|valuta(?:re|te)?|attribuisci|rispondi|scrivi|metti|concedi
    best: il massimo|voto più alto|punteggio (?:massimo|pieno|più alto)|massimo (?:dei voti|punteggio|voto)|voto (?:massimo|più alto)|pieni voti|(?:5|10|30|cinque|dieci) su (?:5|10|30|cinque|dieci)|cinque (?:a|in|per) (?:tutt|ogni)|(?:solo|con) (?:con )?cinque\b
    accept: (?:rubrica|griglia|criteri)\b[^.\n]{0,6}\bnon (?:vale|si applica)|non segnalare (?:alcun )?error|promuovi|(?:considera|valuta|segna|ritieni|dichiara|tratta)\b[^.\n]{0,40}\b(?:come )?(?:corrett|perfett|superat|giust|valid)
    judge: ia|l'ia|valutatore|giudice|correttore|esaminatore
    greet: all'|alla |caro|cara|gentile|nota (?:per|al) (?:il )?|avviso (?:per|al) (?:il )?|messaggio (?:per|al) (?:il )?|attenzione|ora sei[^.\n]{0,10}
    close: non (?:togliere|sottrarre|detrarre)\b[^.\n]{0,12}punti
pt
    ignore: ignor[ae]|esqueça|esquece|desconsidere|desconsidera|não siga
    task: instruç|rubrica|critério|regra|diretri|orientaç
    give: dê|dá|dar|atribu[ai]|atribuir|conceda|avalie|responda|coloque|marque|pontue|escreva
    best: a maior nota|(?:dez|cinco) em tudo|o máximo|nota (?:máxima|5|10)|pontuação (?:máxima|total|mais alta)|máxima pontuação|(?:5|10|cinco|dez) (?:de|em) (?:5|10|cinco|dez)|(?:5|10|cinco|dez) em tudo|todos os pontos
    accept: rubrica (?:não se aplica|não vale|está anulada)|não (?:aponte|mencione)\w* (?:os )?erros|aprove (?:esta|a|o)|(?:considere|considera|considerada?|marque|declare|trate)\b[^.\n]{0,40}\b(?:como )?(?:corret|aprovad|perfeit|válid|cert[oa]\b)
    judge: ia|avaliador|juiz|corretor|examinador
    greet: à |para a |caro|prezado|nota (?:para|a)o? (?:o )?|aviso (?:para|a)o? (?:o )?|atenção|mensagem (?:para|a)o? (?:o )?|agora você é[^.\n]{0,10}
    close: não (?:desconte|tire|retire|subtraia)\b[^.\n]{0,12}pontos?
nl
    ignore: negeer|vergeet|sla over
    task: instructie|rubriek|criteri|regel|richtlijn|opdracht
    give: geef|ken|beoordeel|antwoord|schrijf|waardeer
    best: het maximum|overal het|hoogste (?:score|cijfer|punt)|maximale? (?:score|punten)|alle punten|volle punten|overal een (?:vijf|tien|5|10)|(?:5|10|vijf|tien) (?:van de|op|uit) (?:5|10|vijf|tien)
    accept: (?:beschouw|markeer|reken)\b[^.\n]{0,40}\bals (?:juist|correct|geslaagd|goed)
    judge: ai|beoordelaar|rechter|jurylid|nakijker
    greet: aan de|beste|geachte|let op|bericht aan de|opmerking voor de
    close: trek\b[^.\n]{0,10}geen punten|trek geen punten af
pl
    ignore: zignoruj|ignoruj|zapomnij|pomiń
    task: instrukcj|kryteri|zasad|rubryk|polece|wytyczn
    give: daj|przyznaj|oceń|wystaw|odpowiedz|napisz
    best: najwyższą ocenę|maksymaln\w* (?:liczb\w* punkt|ocen|punkt|wynik)|najwyższ\w* (?:ocen|wynik|not)|(?:5|10) na (?:5|10)|same piątki
    accept: (?:uznaj|potraktuj|oznacz)\b[^.\n]{0,40}\b(?:za|jako) (?:poprawn|zaliczon|doskonał)
    judge: sędzio|oceniający|egzaminator|recenzencie
    greet: drogi|szanowny|uwaga(?: dla)?|uwaga,
sv
    ignore: ignorera|glöm|bortse från
    task: instruktion|kriteri|regler|riktlinje|bedömningsmall
    give: ge|sätt|betygsätt|svara med
    best: högsta (?:betyg|poäng)|full poäng|maxpoäng|(?:5|10) av (?:5|10)
    accept: (?:betrakta|markera|godkänn)\b[^.\n]{0,30}\bsom (?:rätt|godkän|korrekt)
    judge: bedömare|domare|ai
    greet: kära|till|bästa
uk
    ignore: ігноруй(?:те)?|забудь(?:те)?
    task: інструкці|правил|критері
    give: постав(?:те)?|дай(?:те)?|оціни(?:ть)?
    best: найвищ\w* (?:бал|оцін)|максимальн\w* (?:бал|оцін)|(?:5|10) з (?:5|10)
    accept: зарахуй(?:те)?
    judge: суддя|перевіряючий
    greet: шановний|дорогий
id
    ignore: abaikan|lupakan
    task: instruksi|perintah|rubrik|kriteria|aturan
    give: berikan|beri
    best: nilai (?:maksimal|tertinggi|penuh|sempurna)|skor (?:maksimal|tertinggi)
    accept: anggap\b[^.\n]{0,30}\b(?:benar|lulus)
    judge: penilai|juri
    greet: kepada|yth
vi
    ignore: bỏ qua|phớt lờ|quên
    task: hướng dẫn|chỉ dẫn|tiêu chí|quy tắc
    give: cho|chấm
    best: điểm (?:tối đa|cao nhất)|10 điểm
    accept: coi\b[^.\n]{0,30}\blà (?:đúng|đạt)
    judge: giám khảo
    greet: kính gửi|gửi
tr
    ignore: \b
    task: (?:talimat|kural|kriter|ölçüt)\w*[^.\n]{0,12}(?:yok say|görmezden gel|unut|dikkate alma)
    give: \b
    best: (?:tam puan|en yüksek (?:puan|not)\w*|10 üzerinden 10|5 üzerinden 5) ver
    accept: (?:doğru|geçti|başarılı) (?:olarak (?:işaretle|değerlendir|kabul et)|say)
    judge: hakem|değerlendirici|jüri
    greet: sayın|sevgili
ru
    ignore: критерии больше не|отмен|игнорируй(?:те)?|забудь(?:те)?|не обращай(?:те)? внимания|пренебреги(?:те)?|отмени(?:те)?|пропусти(?:те)?
    task: действу|инструкци|правил|критери|рубрик|указани|задани|шкал
    give: выставляй(?:те)?|обязан поставить|обязаны поставить|ставь(?:те)?|поставь(?:те)?|дай(?:те)?|выставь(?:те)?|оцени(?:те)?|ответь(?:те)?|присвой(?:те)?|напиши(?:те)?|начисли(?:те)?
    best: максимум|зачет|пять\b|везде|максимальн\w* (?:балл|оценк|количеств)|высш\w* (?:балл|оценк)|наивысш\w* (?:балл|оценк)|пят[её]рк|(?:5|10|пять|десять) из (?:5|10|пяти|десяти)|(?:5|10|пять|десять) балл|полный балл
    accept: не указывай(?:те)? ошиб|напиши(?:те)?, что ответ верн|(?:засчитай|считай|признай|отметь|посчитай)(?:те)?\b|результат\b[^.\n]{0,6}за(?:чет|чёт)
    judge: ии\b|судья|проверяющий|оценщик|эксперт|рецензент|модель-судья
    greet: для|дорогой|уважаемый|внимание,?|заметка для|примечание для
    close: не снимай(?:те)? балл
"""

UNSPACED: Mapping[str, tuple[str, ...]] = {
    "ignore_instructions": (
        r"(?:忽略|无视|不要理会|忘记|忘掉|不必遵守|不用管)[^。\n]{0,12}(?:指令|指示|规则|标准|要求|提示|评分)",
        r"(?:基準|ルール|指示)[^。\n]{0,6}(?:適用しない|適用せず)",
        r"从现在起你|从现在开始你",
        r"المعايير[^.\n]{0,12}ملغا",
        r"(?:αγνοησε|ξεχασε)[^.\n]{0,20}(?:οδηγι|κριτηρι|κανον)",
        r"(?:התעלם|שכח)[^.\n]{0,20}(?:הוראות|כללים|קריטריונים)",
        r"(?:评分)?(?:标准|规则|指令)(?:已经?)?(?:失效|作废|无效|更改|更新)",
        r"(?:指示|ルール|基準|命令|採点|規則|指令)[^。\n]{0,10}(?:無視|忘れ|従わない)",
        r"(?:تجاهل|انس|لا تتبع)[^.\n]{0,20}(?:تعليمات|معايير|قواعد|المعيار|التعليمات)",
        r"(?:지시|규칙|기준|명령|지침)[^.\n]{0,8}(?:무시|잊)",
        r"(?:निर्देश|नियम|मानदंड)[^।\n]{0,12}(?:अनदेखा|नज़रअंदाज़|भूल)",
    ),
    "asks_for_score": (
        r"(?:给|打|输出|给出|评|判|写)[^。，\n]{0,10}(?:满分|最高分|[五5十]分|10分|100分)(?:。|！|，|\n|$|吧|就)",
        r"(?:满点|満点|最高点|[5五]点|10点|合格点)[^。\n]{0,10}(?:付け|つけ|与え|出力|してくだ|ください|くれ)",
        r"(?:不要|别|请勿)(?:扣分|指出任何?错误|指出错误)",
        r"每[项个][^。\n]{0,4}(?:填|给|打)[^。\n]{0,3}(?:5|五|满分)",
        r"減点せ(?:ず|ない)|減点しないで|全(?:ての?)?項目[^。\n]{0,3}[5五]",
        r"最高(?:評価|の評価)を(?:出|付|つけ|与)",
        r"لا تخصم[^.\n]{0,12}(?:نقاط|درجات|نقطة)",
        r"(?:δωσε|βαλε)[^.\n]{0,20}(?:αριστα|μεγιστ|10)",
        r"תן[^.\n]{0,12}(?:ציון מלא|ציון מקסימלי)",
        r"(?:امنح|اعط|أعط|ضع|قيم|قيّم)[^.\n]{0,30}(?:الدرجة الكاملة|اعلى درجة|أعلى درجة|الدرجة القصوى|من 10|من خمسة|من 5|من عشرة)",
        r"(?:만점|최고점|최고 점수|5점|10점)[^.\n]{0,8}(?:주세요|주십시오|줘|부여)",
        r"(?:पूरे अंक|अधिकतम अंक|पूर्ण अंक|10 में से 10|5 में से 5)[^।\n]{0,12}(?:दें|दीजिए|दो)",
    ),
    "asks_for_verdict": (
        r"(?:判定|判为|视为|标记|认定|评为)[^。\n]{0,8}(?:通过|正确|合格|满分|优秀)",
        r"(?:合格|正解|正しい|満点)と(?:して|判定|みなし|見なし)",
        r"(?:اعتبر|احسب|سجل)[^.\n]{0,30}(?:صحيحة|ناجحة|صحيح|ناجح|مقبولة)",
        r"(?:정답|합격|통과)(?:으로|로)[^.\n]{0,6}(?:처리|판정|간주)",
        r"(?:सही|उत्तीर्ण)[^।\n]{0,8}(?:मानें|माने|चिह्नित)",
    ),
    "speaks_to_judge": (
        r"(?:致|给|尊敬的|亲爱的)?(?:阅卷ai|评分ai|评委|评审|评分员|评估者|评分者|阅卷人|评审模型|打分模型)[^。\n]{0,4}(?:你好|您好|：|:|请)",
        r"(?:採点ai|採点者|審査員|評価者|採点モデル|ジャッジ)(?:へ|様|さん|に告ぐ)",
        r"(?:عزيزي|ملاحظة|تنبيه|الى|إلى)[^.\n]{0,6}(?:الحكم|المقيم|المقيّم|المصحح|القاضي)",
        r"(?:채점자|심사위원|평가자)(?:님|에게|께)",
        r"(?:प्रिय|सूचना)[^।\n]{0,6}(?:मूल्यांकनकर्ता|परीक्षक|न्यायाधीश)",
    ),
}


def list_spaced_rules() -> dict[str, str]:
    """Return the patterns of languages that put spaces between words, over texts in ASCII."""
    found: dict[str, list[str]] = {}
    for language in re.split(r"^\w\w\n", _TABLE, flags=re.MULTILINE)[1:]:
        words = dict(line.lstrip().split(": ", 1) for line in language.splitlines())
        for name, pattern in _make_spaced(words):
            found.setdefault(name, []).append(as_ascii(fold(pattern)))
    return {name: "|".join(each) for name, each in found.items()}


@cache
def list_unspaced_rules() -> dict[str, str]:
    """Return the patterns of the other languages, over folded texts."""
    return {name: fold("|".join(each)) for name, each in UNSPACED.items()}


def _make_spaced(words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    any_of = {name: f"(?:{each})" for name, each in words.items()}
    gap = r"[^.!?\n]"
    ignored = rf"\b{any_of['ignore']}\b{gap}{{0,40}}?(?:\b|'){any_of['task']}"
    yield "ignore_instructions", ignored
    yield "asks_for_score", rf"\b{any_of['give']}\b{gap}{{0,60}}?\b{any_of['best']}"
    yield "asks_for_verdict", rf"\b{any_of['accept']}"
    yield "speaks_to_judge", rf"\b{any_of['greet']}\s*{any_of['judge']}\b"
    if "close" in any_of:
        yield "asks_for_score", rf"\b{any_of['close']}"
