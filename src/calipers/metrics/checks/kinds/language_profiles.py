"""Profiles of languages: the script, frequent words, and letters that few of them have."""

_SCRIPTS = {
    "latin": "cs da de en es fi fr hu id it nl no pl pt ro sv tr vi", "cyrillic": "bg ru uk",
    "greek": "el", "hebrew": "he", "arabic": "ar fa", "devanagari": "hi", "bengali": "bn",
    "tamil": "ta", "telugu": "te", "thai": "th", "han": "zh", "kana": "ja", "hangul": "ko",
}  # fmt: skip
SCRIPTS = {script: tuple(codes.split()) for script, codes in _SCRIPTS.items()}

_WORDS = """
en: the of and to in is it you that he was for on are with as his they be at one have this from or
    had by but not what all were we when your can said there an which do their if will up other
    about out many then them these so some her would make like him into has could no than been its
    who now did my only must should may cannot don't i'm it's
de: der die das und in zu den ist von mit sich des auf für nicht ein eine als auch es an werden
    aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben
    nur oder aber vor zur bis mehr durch man sein wurde ihr ich wir kann keine kein wenn diese
    dieser dieses muss können konnte im vom mir uns sehr was gibt
fr: le la les de des du un une et à est en que qui dans pour pas au sur ne se ce il sont avec plus
    par je vous nous ils elle mais ou où si leur cette ces son sa ses être avoir fait été comme
    tout aux même aussi bien peut dont entre sans n'est c'est d'un d'une l'on qu'il votre notre
    très ont deux doit impossible aucun cet
es: el la los las de del que en un una es se no por con para su al lo como más pero sus le ya este
    sí porque esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos
    durante todos uno les ni contra otros ese eso ante ellos esto antes algunos está están puede
    ser son fue ha tiene gracias hola debe cada
it: il lo la gli le di del della dei che è in un una per non con sono da al si come più ma anche
    su alla questo questa se nel nella ci mi ho ha hanno essere era stato stata dove perché così
    molto dal dalla delle degli sul sulla può quando loro suo sua grazie ogni tra oppure deve già
    senza viene
pt: os as de do da dos das que é em um uma para com não por mais se na no nos nas como mas ao ele
    foi sua seu ou ser quando muito há já está eu também só pelo pela até isso ela entre era
    depois sem mesmo aos ter seus quem meu esse eles estão você tinha foram pode são obrigado deve
    cada
nl: de het een en van in is dat op te zijn voor met die niet aan er om ook als bij maar dan nog
    naar heeft hij ze wat door over uit tot je mijn worden wordt kan geen deze dit hebben zou was
    werd meer al wij zo veel onze moet kunnen waar of tegen na tussen ik
sv: och att det som en på är av för med den till inte har de ett om var vi jag så men kan från
    eller han du när nu under efter vid mycket hur ska över sig dem alla hade där ut skulle mot
    blir måste finns någon kunde ingen inga detta denna utan också man
da: og at det er en til af på for med den der ikke de har som et jeg var men du vi kan fra eller
    han når nu efter ved meget hvordan skal over sig dem alle havde hvor ud ville mod bliver være
    blev ingen noget nogle også mig dig hvis mere kun dette kunne fejl hvad hvilke nogen uden ind
    op lige sådan mellem siden os brug fil filen findes angivet
no: og at det er en til av på for med den som ikke de har et jeg var men du vi kan fra eller han
    når nå etter ved mye hvordan skal over seg dem alle hadde hvor ut ville mot blir være ble
    ingen noe noen også meg deg hvis mer bare dette kunne feil må hva hvilke uten inn opp like
    slik mellom siden oss bruk fil filen finnes angitt dersom
fi: ja on ei se että hän oli ovat mutta kun niin myös joka jos tai sen ole kuin vain nyt sitä minä
    sinä me he tämä tämän mitä voi ollut olla kanssa jälkeen mukaan koska sekä jotka jossa ennen
    hänen siitä eivät voidaan tiedosto tiedostoa virhe
pl: na się nie do to że jest jak ale po co tak za od być przez tylko dla czy już może ich są oraz
    był ma tym jego jej lub gdy bardzo który która które pod ze tego przed także nad bez można
    jako nas mnie wszystko proszę dziękuję więc
cs: se na je že do to ve jako po pro za jsem by ale jak byl si od už tak jen není které který
    která nebo co ze také když při jeho její ještě podle až jsou být bez než může mezi před pod
    lze nelze soubor byla bylo
ro: și în de la cu nu pe că din este să se un mai pentru care sunt ce au fost prin ca sau al dar
    după fi am lui nici cea cel acest această aceste când poate foarte între fără doar ale
    fișierul dacă
hu: az és hogy nem is egy ez van meg de csak már még ha mint vagy volt el ki le mert lehet kell
    után azt ezt minden mi ő én te sem nagyon pedig amely aki ami nincs majd közben során alatt
    által fájl sikerült
tr: ve bir bu için de da ile çok ne gibi daha var olarak ama sonra kadar mi en ise değil ki olan
    her ben sen biz siz onlar nasıl neden şey yok veya ya bunu şu tüm olduğu olması edildi dosya
id: yang dan di ini itu untuk dengan tidak dari dalam akan pada juga ke saya ada adalah oleh
    sebagai atau bisa dapat karena mereka kita anda sudah telah lebih hanya jika saat tersebut
    bahwa harus kami berkas
vi: và của là có không được cho một các trong những với để này khi đã người về như từ tôi bạn đến
    cũng vào sẽ nhưng rất thì ra nếu phải hoặc trên tại bị tập tin
ru: и в не на что я с он а как это по но они мы она так его из у за к от же то было все для только
    или быть ещё еще бы если уже когда даже нет может этот чтобы нас есть очень при также файл
    ошибка
uk: і в не на що я з він а як це та й до по але вони ми вона так його із у за від же було всі для
    тільки або бути ще якщо вже коли навіть немає може цей щоб нас є дуже при також файл помилка
bg: и в не на че се да за от с по е са като това но той тя те ще или при към до беше тази този
    бъде има няма може когато ако още само както всички който която много файл грешка
ar: في من على إلى أن هذا هذه التي الذي لا ما كان مع عن هو هي أو ثم قد لم كل بعد بين
fa: و در به از که این را با است آن برای یک می شود شد بر تا هم یا اما نیست اگر باید خود کرد
"""


def _read_words() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in _WORDS.split():
        if word.endswith(":"):
            words = found[word[:-1]] = []
        else:
            words.append(word)
    return found


WORDS = _read_words()

LETTERS: dict[str, str] = {
    "de": "ß", "fr": "œêùû", "es": "ñ¿¡", "pt": "ãõ", "sv": "ä", "da": "æø", "no": "æø", "fi": "äö",
    "pl": "łńśźżąę", "cs": "ěřůďťň", "ro": "șțşţă", "hu": "őű", "tr": "ğışİ",
    "vi": "đơưạảấầẩậắằẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ", "it": "ìò",
    "ru": "ыэё", "uk": "іїєґ", "bg": "ъ", "fa": "پچژگیک", "ar": "ةيكىأإ",
}  # fmt: skip
